package checkpoint

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/binary"
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// refuse reads a pickle as a zip checkpoint, as a legacy checkpoint and as a vocabulary, and
// requires an error each time. Both checkpoints must give the same error, which refuse returns.
func refuse(t *testing.T, pickle []byte) error {
	_, err := readBytes(archiveOf(t, pickle, nil))
	require.Error(t, err)
	_, legacy := readBytes(legacyOf(pickle, nil))
	require.EqualError(t, legacy, err.Error())
	_, vocabulary := readVocabulary(bytes.NewReader(pickle), int64(len(pickle)))
	require.Error(t, vocabulary)
	return err
}

// Every instruction that can name a class is tried with forbidden classes. The error contains the
// class name, and comes before any call.
func TestClassesOutsideTheListAreRefusedByName(t *testing.T) {
	for _, name := range []string{
		"os system", "posix system", "nt system", "builtins eval", "builtins exec",
		"__builtin__ eval",
		"builtins getattr", "builtins __import__", "subprocess Popen", "runpy _run_code",
		"functools partial", "operator attrgetter", "sys exit", "socket socket", "webbrowser open",
		"builtins list", "builtins dict", "__builtin__ object", "copy_reg _reconstructor",
		"array _array_reconstructor", "_codecs encode", "numpy.core.multiarray scalar",
		"torch.hub load", "torch.storage _load_from_bytes", "torch.serialization load",
		"torch load",
		"torch.nn.modules.module warnings", "torch.nn.modules.module Module.register_buffer",
		"torch.nn.modules.linear.os System", "mem_transformer os.system", "__main__ Evil",
		"mem_transformer __import__", "torch FloatStorage.from_buffer",
		"collections OrderedDict.fromkeys",
	} {
		module, class, _ := strings.Cut(name, " ")
		full := `"` + module + "." + class + `"`
		for instruction, pickle := range map[string][]byte{
			"GLOBAL": newPickler().global(module, class).op("(").text("touch /tmp/x").op("tR.").
				Bytes(),
			"STACK_GLOBAL": newPickler().text(module).text(class).op("\x93)R.").Bytes(),
			"by memo": newPickler().text(module).op("q\x00").text(class).op(
				"\x94"). /* MEMOIZE: number 1 */
				op("j\x00\x00\x00\x00h\x01\x93)R.").Bytes(),
			"in a state dict": newPickler().emptyDict().op("(").text("r_w_bias").global(module,
				class).
				op("u.").Bytes(),
		} {
			err := refuse(t, pickle)
			require.ErrorIs(t, err, ErrClass, "%s by %s", name, instruction)
			require.ErrorContains(t, err, full, instruction)
		}
	}
	var e *Error
	require.ErrorAs(t, refuse(t, newPickler().op("N").global("os", "system").op(".").Bytes()), &e)
	require.Equal(t, int64(3), e.Offset)
}

func TestInstructionsThatCheckpointsDoNotHaveAreRefused(t *testing.T) {
	for code, name := range refusedOpcodes {
		err := refuse(t, newPickler().op("("+string([]byte{code})+"os\nsystem\n.").Bytes())
		require.ErrorIs(t, err, ErrFormat, name)
		require.ErrorContains(t, err, "opcode "+name)
	}
	require.ErrorContains(t, refuse(t, newPickler().op("\xff").Bytes()), "opcode 0xff")
	require.ErrorContains(t, refuse(t, []byte("\x80\x00N.")), "protocol 0")
	computed := newPickler().text("os").op("N\x85").text("system").op("\x93.").Bytes()
	require.ErrorIs(t, refuse(t, computed), ErrClass)
}

func TestWhatIsAllowedKeepsItsArguments(t *testing.T) {
	deep := strings.Repeat("\x85", 1_000_000)
	for what, p := range map[string]*pickler{
		"a module called": newPickler().global("mem_transformer", "MemTransformerLM").
			op(")R."),
		"a storage called": newPickler().global("torch", "FloatStorage").op(")R."),
		"a tensor of no storage": newPickler().global("torch._utils", "_rebuild_tensor_v2").
			op("(K\x00K\x00))\x89NtR."),
		"a parameter of no tensor": newPickler().global("torch._utils", "_rebuild_parameter").
			op("NNN\x87R."),
		"a dictionary of something": newPickler().global("collections",
			"OrderedDict").op("N\x85R."),
		"a set of much": newPickler().global("builtins", "set").op("(NNtR."),
		"a module's state": newPickler().global("torch.nn.modules.linear", "Linear").
			op(")\x81Nb."),
		"a key that is no key":     newPickler().emptyDict().op("C\x01aNs."),
		"a key without a value":    newPickler().op("}(Nu."),
		"a list that is none":      newPickler().op("NNa."),
		"an empty stack":           newPickler().op("."),
		"no mark":                  newPickler().op("t."),
		"an unknown memo":          newPickler().op("h\x07."),
		"an integer of no bytes":   newPickler().op("\x8a\x00."),
		"tuples in tuples":         newPickler().op(")" + deep + "."),
		"tuples in tuples, called": newPickler().op(")" + deep + ")R."),
		"tuples in tuples, an argument": newPickler().global("collections", "OrderedDict").
			op(")" + deep + "R."),
		"tuples in tuples, an id": newPickler().op(")" + deep + "Q."),
		"tuples in tuples, a key": newPickler().op("}(N)" + deep + "Nu."),
		"a list in itself":        newPickler().op("]q\x00h\x00a)R."),
		"a module in itself": newPickler().global("mem_transformer", "MemTransformerLM").
			op(")\x81q\x00}(").
			text("_modules").op("}(").text("m").op("h\x00uub."),
		"a tensor that is none": newPickler().op("}(").text("r_w_bias").op("Nu."),
		"a name twice":          newPickler().op("}(").text("a").op("N").text("a").op("Nu."),
	} {
		err := refuse(t, p.Bytes())
		require.Less(t, len(err.Error()), 500, what)
		var e *Error
		require.ErrorAs(t, err, &e, what)
	}
}

// A module may occur in several places of the module tree. The number of occurrences can grow
// exponentially, so it is limited.
func TestModulesThatMultiplyAreRefused(t *testing.T) {
	p := newPickler().global("torch.nn.modules.container", "Sequential").op("q\x00)\x81q\x01")
	for level := range byte(14) { // each module contains the preceding module five times
		p.op("q" + string([]byte{level + 1}))
		p.op("h\x00)\x81}(").text("_modules").op("}(")
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			p.text(name).op("h" + string([]byte{level + 1}))
		}
		p.op("uub")
	}
	err := refuse(t, p.op(".").Bytes())
	require.ErrorIs(t, err, ErrTooLarge)
}

// The entries of a module count again in each place that contains the module. So a large module in
// many places exceeds the limit.
func TestEntriesOfModulesThatMultiplyAreRefused(t *testing.T) {
	const many = 1000
	p := newPickler().global("torch.nn.modules.container", "Sequential").op("q\x00)\x81}(")
	p.text("_buffers").op("}(")
	for i := range many {
		p.text(strconv.Itoa(i)).op("N")
	}
	p.op("uubq\x01h\x00)\x81}(").text("_modules").op("}(")
	for i := range many {
		p.text(strconv.Itoa(i)).op("h\x01")
	}
	err := refuse(t, p.op("uub.").Bytes())
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, "too many modules and parameters")
}

// Errors print the names of tensors. So long names, and names with control characters, are refused.
func TestNamesThatCannotBePrintedAreRefused(t *testing.T) {
	for _, name := range []string{"a\x1b[2J", "a\nb", "\xff", strings.Repeat("a", maxNameBytes+1)} {
		tensors := plain(4)
		tensors[1].name = name
		c, err := readBytes(archiveOf(t, stateDict(tensors, false), arraysOf(tensors)))
		require.NoError(t, err)
		_, err = c.Convert(Options{Settings: known()})
		require.ErrorContains(t, err, "bytes of printable text")
		root := newPickler().module(treeOf(tensors), false).op(".").Bytes()
		_, err = readBytes(archiveOf(t, root, arraysOf(tensors)))
		require.ErrorContains(t, err, "bytes of printable text")
	}
}

// Many small tensors each span a whole storage. The reader would read the storage once for each of
// them, so the checkpoint is refused.
func TestTensorsThatReadAStorageOverAndOverAreRefused(t *testing.T) {
	wide := &array{key: "wide", class: "FloatStorage", size: 4, data: make([]byte, 4096)}
	tensors := plain(4)
	for i := range 20 {
		tensors = append(tensors, shown{"r" + strconv.Itoa(i), wide, 0, []int{2}, []int{1023}})
	}
	_, err := readBytes(archiveOf(t, stateDict(tensors, false), arraysOf(tensors)))
	require.ErrorIs(t, err, ErrTooLarge)
	require.ErrorContains(t, err, "at most 8 times as many")
}

// Tables without rows may claim any width. The search for a common divisor of the widths still ends
// quickly.
func TestTablesOfAnyWidthAreReadInTime(t *testing.T) {
	none := &array{key: "none", class: "FloatStorage", size: 4}
	var tensors []shown
	for i := range 2 {
		name := inputTable + strconv.Itoa(i) + weightSuffix
		tensors = append(tensors, shown{name, none, 0, []int{0, math.MaxInt32}, []int{0, 0}})
	}
	c, err := readBytes(archiveOf(t, stateDict(tensors, false), arraysOf(tensors)))
	require.NoError(t, err)
	_, err = c.Convert(Options{Settings: known()})
	require.ErrorContains(t, err, "missing")
	require.Zero(t, divisorOf([][]int{{0, 1 << 50}, {0, 1}}))
}

func TestPersistentIDsOfOtherForms(t *testing.T) {
	good := func() *pickler {
		return newPickler().op("(").text("storage").
			global("torch", "FloatStorage")
	}
	for want, p := range map[string]*pickler{
		"found a string": newPickler().text("storage").op("Q."),
		"found None":     newPickler().op("NQ."),
		"a tuple of 0":   newPickler().op(")Q."),
		"a tuple of 5": newPickler().op("(").text("module").text("a").text("b").text("c").
			text("d").op("tQ."),
		"(a string, ": newPickler().op("(").text("storage").text("FloatStorage").text("0").
			text("cpu").op("K\x01tQ."),
		"part of another": good().text("0").text("cpu").op("K\x01)tQ."),
		"-1 elements":     good().text("0").text("cpu").number(-1).op("tQ."),
	} {
		require.ErrorContains(t, refuse(t, p.Bytes()), want)
	}
	huge := good().text("0").text("cpu").op("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7ftQ.").Bytes()
	require.ErrorContains(t, refuse(t, huge), "9223372036854775807 elements")
	long := good().text("0").text("cpu").op(
		"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x7ftQ.").Bytes()
	require.ErrorContains(t, refuse(t, long), "two strings and an integer")
}

func TestPicklesThatWantMemoryAreRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("reads millions of instructions")
	}
	length := func(n uint64, bytes int) string {
		return string(binary.LittleEndian.AppendUint64(nil, n)[:bytes])
	}
	million := 1 << 20
	for what, p := range map[string]*pickler{
		"a string of 4 GiB":  newPickler().op("X" + length(math.MaxUint32, 4)),
		"a string of 2^62":   newPickler().op("\x8d" + length(1<<62, 8)),
		"bytes of 2^63":      newPickler().op("\x8e" + length(1<<63, 8)),
		"a string cut short": newPickler().op("X" + length(maxPickleBytes/2, 4)),
		"a frame of 2^40":    newPickler().op("\x95" + length(1<<40, 8)),
		"marks":              newPickler().op(strings.Repeat("(", 3*million)),
		"dictionaries":       newPickler().op(strings.Repeat("}", 3*million)),
		"notes":              newPickler().op("N" + strings.Repeat("\x94", 6*million)),
		"a string in many places": newPickler().text(strings.Repeat("x", million)).
			op("q\x00" + strings.Repeat("h\x00", million)),
		"a class without an end": newPickler().op("c" + strings.Repeat("a", million)),
	} {
		before := allocated()
		_, err := unpickle(bufio.NewReader(bytes.NewReader(p.Bytes())), nil)
		var e *Error
		require.ErrorAs(t, err, &e, what)
		require.Less(t, allocated()-before, uint64(1<<30), what)
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func TestViewsThatLeaveTheirStorageAreRefused(t *testing.T) {
	s := &storage{key: "0", element: elementTypes[0], count: 12}
	for _, v := range []view{
		{s, 0, []int{13}, []int{1}}, {s, 1, []int{12}, []int{1}}, {s, 12, []int{1}, []int{1}},
		{s, -1, []int{1}, []int{1}},
		{s, 0, []int{3, 4}, []int{5, 1}}, {s, 0, []int{2}, []int{12}}, {s, 0, []int{-1}, []int{1}},
		{s, 0, []int{2}, []int{-1}},
		{s, 11, []int{2}, []int{-1}}, {s, 0, []int{13}, []int{0}}, {s, 0, []int{1 << 62, 4},
			[]int{0, 0}},
		{s, 0, []int{math.MaxInt, math.MaxInt}, []int{1, 1}}, {s, 0, []int{2}, []int{math.MaxInt}},
		{s, math.MaxInt64, []int{2}, []int{1}}, {s, math.MaxInt64, []int{}, []int{}},
		{s, 12, []int{}, []int{}},
		{s, 0, []int{2, 2}, []int{1}}, {s, 0, make([]int, 9), make([]int, 9)},
	} {
		require.ErrorIs(t, v.check(), ErrFormat, "%v", v)
	}
	for _, v := range []view{
		{s, 0, []int{12}, []int{1}}, {s, 11, []int{}, []int{}}, {s, 12, []int{0}, []int{1}},
		{s, 0, []int{3, 4}, []int{1, 3}},
		{s, 0, []int{1, 12}, []int{1000, 1}}, {s, 0, []int{2, 2, 2}, []int{0, 1, 1}},
	} {
		require.NoError(t, v.check(), "%v", v)
	}
}

func TestArchivesThatTorchDoesNotWriteAreRefused(t *testing.T) {
	tensors := plain(4)
	pickle, arrays := stateDict(tensors, false), arraysOf(tensors)
	good := archiveOf(t, pickle, arrays)
	// records are triples of name, data and compression method
	of := func(records ...any) []byte {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for i := 0; i < len(records); i += 3 {
			w, err := z.CreateHeader(
				&zip.FileHeader{Name: records[i].(string), Method: records[i+2].(uint16)},
			)
			require.NoError(t, err)
			_, err = w.Write(records[i+1].([]byte))
			require.NoError(t, err)
		}
		require.NoError(t, z.Close())
		return b.Bytes()
	}
	damaged := bytes.Clone(good)
	damaged[bytes.Index(damaged, tensors[3].of.data)] ^= 1
	long := &array{key: arrays[0].key, class: "FloatStorage", size: 4,
		data: append(arrays[0].data, 0, 0, 0, 0)}
	bomb := make([]byte, 16<<20)
	for want, file := range map[string][]byte{
		`record "m/data/1": found no such record`: archiveOf(t, pickle, arrays[:1]),
		`storage "0": found 20 bytes, expected 16`: archiveOf(t, pickle,
			append([]*array{long}, arrays[1:]...)),
		"neither compressed nor encrypted": of("m/data.pkl", bomb, zip.Deflate),
		"twice": of("m/data.pkl", pickle, zip.Store,
			"m/data.pkl", pickle, zip.Store),
		"2 records data.pkl": of("m/data.pkl", pickle, zip.Store,
			"n/data.pkl", pickle, zip.Store),
		"0 records data.pkl": of("m/data.pk", pickle, zip.Store),
		"TorchScript": of("m/data.pkl", pickle, zip.Store,
			"m/constants.pkl", pickle, zip.Store),
		`found "big", expected "little"`: of("m/data.pkl", pickle, zip.Store,
			"m/byteorder", []byte("big"), zip.Store),
		"a sound directory": good[:len(good)-30],
		"checksum":          damaged,
	} {
		c, err := readBytes(file)
		if err == nil { // damaged data is found only when it is read
			var m *Converted
			m, err = c.Convert(Options{Settings: known()})
			for i := 0; err == nil && i < len(m.Tensors); i++ {
				_, err = m.Tensors[i].Data.ReadAt(make([]byte, 4), 0)
			}
		}
		require.ErrorContains(t, err, want)
		var e *Error
		require.ErrorAs(t, err, &e)
	}
}

// The reader loads the directory of a zip archive before it can count the records. So the
// directory's size is limited, too.
func TestArchivesOfAnEndlessDirectoryAreRefused(t *testing.T) {
	const entries = maxDirectoryBytes / 46
	entry := append([]byte("PK\x01\x02"), make([]byte, 42)...)
	end := append([]byte("PK\x05\x06"), make([]byte, 18)...)
	binary.LittleEndian.PutUint16(end[10:], math.MaxUint16)
	binary.LittleEndian.PutUint32(end[12:], (entries+1)*46)
	binary.LittleEndian.PutUint32(end[16:], 4)
	file := append([]byte("PK\x03\x04"), bytes.Repeat(entry, entries+1)...)
	_, err := readBytes(append(file, end...))
	require.ErrorIs(t, err, ErrFormat)
	require.ErrorContains(t, err, "a zip directory of more than 16 MiB")
}

func TestLegacyFilesThatTorchDoesNotWriteAreRefused(t *testing.T) {
	tensors := plain(4)
	pickle, arrays := stateDict(tensors, true), arraysOf(tensors)
	good := legacyOf(pickle, arrays)
	_, err := readBytes(good)
	require.NoError(t, err)
	short := &array{key: arrays[0].key, class: "FloatStorage", size: 4, data: arrays[0].data[:12]}
	magic := len("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.")
	for want, file := range map[string][]byte{
		"a list of 15": legacyOf(pickle, arrays[1:]),
		"the key of every storage once": legacyOf(pickle,
			append(arrays[1:len(arrays):len(arrays)], arrays[1])),
		"found 3 elements, expected 4": legacyOf(pickle, append([]*array{short}, arrays[1:]...)),
		"the end of the file":          good[:len(good)-1],
		"1 bytes more":                 append(bytes.Clone(good), 0),
		"what torch.save writes":       []byte("\x80\x02N."),
		"expected 1001":                append(bytes.Clone(good[:magic]), "\x80\x02M\xe8\x03."...),
		"the rest of PROTO":            []byte("\x80"),
		"elements with their low byte": bytes.Replace(bytes.Clone(good), []byte("\x88u."),
			[]byte("\x89u."), 1),
	} {
		_, err := readBytes(file)
		require.ErrorContains(t, err, want)
	}
	_, err = readBytes(nil)
	require.ErrorIs(t, err, ErrFormat)
}

func TestWeightsThatAreNotFiniteAreRefused(t *testing.T) {
	tensors := plain(4)
	binary.LittleEndian.PutUint32(tensors[4].of.data[8:], math.Float32bits(float32(math.NaN())))
	c, err := readBytes(archiveOf(t, stateDict(tensors, false), arraysOf(tensors)))
	require.NoError(t, err)
	m, err := c.Convert(Options{Settings: known()})
	require.NoError(t, err)
	var found error
	for i := range m.Tensors {
		if _, err := m.Tensors[i].Data.ReadAt(make([]byte, 4), 0); err != nil {
			found = err
		}
	}
	require.ErrorContains(t, found, `tensor "layers.0.dec_attn.o_net.weight", element 2: found NaN`)
}
