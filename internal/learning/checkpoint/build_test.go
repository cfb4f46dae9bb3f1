package checkpoint

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pickler writes pickles of protocol 2, instruction by instruction, as torch.save does.
type pickler struct{ bytes.Buffer }

func newPickler() *pickler { p := &pickler{}; p.WriteString("\x80\x02"); return p }

func (p *pickler) op(code string) *pickler { p.WriteString(code); return p }

func (p *pickler) global(module, name string) *pickler {
	return p.op("c" + module + "\n" + name + "\n")
}

func (p *pickler) text(s string) *pickler {
	return p.op("X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(s)))) + s)
}

func (p *pickler) number(n int) *pickler {
	return p.op("J" + string(binary.LittleEndian.AppendUint32(nil, uint32(int32(n)))))
}

func (p *pickler) numbers(list []int) *pickler {
	p.op("(")
	for _, n := range list {
		p.number(n)
	}
	return p.op("t")
}

func (p *pickler) emptyDict() *pickler { return p.global("collections", "OrderedDict").op(")R") }

// array is a PyTorch storage for a test checkpoint.
type array struct {
	key, class string
	size       int
	data       []byte
}

func (a array) count() int { return len(a.data) / a.size }

// shown is a tensor for a test checkpoint: a part of a storage.
type shown struct {
	name          string
	of            *array
	offset        int
	shape, stride []int
}

// tensor writes a tensor in the form of current PyTorch, or of versions before 1.6 (legacy).
func (p *pickler) tensor(t shown, legacy bool) *pickler {
	p.global("torch._utils", "_rebuild_tensor_v2").op("((").text("storage").global("torch",
		t.of.class)
	p.text(t.of.key).text("cpu").number(t.of.count())
	if legacy {
		p.op("N")
	}
	p.op("tQ").number(t.offset).numbers(t.shape).numbers(t.stride).op("\x89")
	return p.emptyDict().op("tR")
}

func stateDict(tensors []shown, legacy bool) []byte {
	p := newPickler().emptyDict().op("(")
	for _, t := range tensors {
		p.text(t.name).tensor(t, legacy)
	}
	return p.op("u.").Bytes()
}

func arraysOf(tensors []shown) (list []*array) {
	seen := map[*array]bool{}
	for _, t := range tensors {
		if !seen[t.of] {
			seen[t.of] = true
			list = append(list, t.of)
		}
	}
	return list
}

// archiveOf returns a zip archive in the form of torch.save since PyTorch 1.6.
func archiveOf(t testing.TB, pickle []byte, arrays []*array) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	put := func(name string, data []byte) {
		h := &zip.FileHeader{Name: name, Method: zip.Store, CRC32: crc32.ChecksumIEEE(data),
			CompressedSize64: uint64(len(data)), UncompressedSize64: uint64(len(data))}
		w, err := z.CreateRaw(h)
		require.NoError(t, err)
		_, err = w.Write(data)
		require.NoError(t, err)
	}
	put("m/data.pkl", pickle)
	put("m/byteorder", []byte("little"))
	for _, a := range arrays {
		put("m/data/"+a.key, a.data)
	}
	put("m/version", []byte("3\n"))
	require.NoError(t, z.Close())
	return b.Bytes()
}

// legacyOf returns a file in the form of torch.save before PyTorch 1.6.
func legacyOf(pickle []byte, arrays []*array) []byte {
	var b bytes.Buffer
	b.WriteString("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.")
	b.WriteString("\x80\x02M\xe9\x03.")
	b.Write(newPickler().op("}(").text("little_endian").op("\x88u.").Bytes())
	b.Write(pickle)
	keys := newPickler().op("](")
	for _, a := range arrays {
		keys.text(a.key)
	}
	b.Write(keys.op("e.").Bytes())
	for _, a := range arrays {
		b.Write(binary.LittleEndian.AppendUint64(nil, uint64(a.count())))
		b.Write(a.data)
	}
	return b.Bytes()
}

func plain(vocab int) []shown {
	const d, hd, inner = 4, 4, 6
	rng := rand.New(rand.NewPCG(1, 2))
	var tensors []shown
	add := func(name string, shape ...int) *array {
		n, stride := 1, make([]int, len(shape))
		for i := len(shape) - 1; i >= 0; i-- {
			stride[i], n = n, n*shape[i]
		}
		a := &array{key: strconv.Itoa(len(tensors)), class: "FloatStorage", size: 4}
		for range n {
			a.data = binary.LittleEndian.AppendUint32(a.data,
				uint32(0x3d000000+rng.IntN(1<<23))) // float32 values from 0.03 to 0.06
		}
		tensors = append(tensors, shown{name, a, 0, shape, stride})
		return a
	}
	add("r_w_bias", 2, 2)
	add("r_r_bias", 2, 2)
	embeddings := add("word_emb.emb_layers.0.weight", vocab, d)
	add("layers.0.dec_attn.qkv_net.weight", 3*hd, d)
	add("layers.0.dec_attn.o_net.weight", d, hd)
	add("layers.0.dec_attn.layer_norm.weight", d)
	add("layers.0.dec_attn.layer_norm.bias", d)
	add("layers.0.dec_attn.r_net.weight", hd, d)
	add("layers.0.pos_ff.CoreNet.0.weight", inner, d)
	add("layers.0.pos_ff.CoreNet.0.bias", inner)
	add("layers.0.pos_ff.CoreNet.3.weight", d, inner)
	add("layers.0.pos_ff.CoreNet.3.bias", d)
	add("layers.0.pos_ff.layer_norm.weight", d)
	add("layers.0.pos_ff.layer_norm.bias", d)
	add("crit.out_layers.0.bias", vocab)
	return append(tensors,
		shown{"crit.out_layers.0.weight", embeddings, 0, []int{vocab, d}, []int{d, 1}})
}

func readBytes(data []byte) (*Checkpoint, error) {
	return openReader(bytes.NewReader(data), int64(len(data)))
}

// known returns the settings that the shapes of tensors do not determine.
func known() Settings {
	memory, off := 8, false
	return Settings{MemLen: &memory, PreLNorm: &off}
}

func dataOf(t testing.TB, m *Converted, name string) []byte {
	for _, tensor := range m.Tensors {
		if tensor.Name == name {
			data, err := io.ReadAll(tensor.Reader())
			require.NoError(t, err)
			return data
		}
	}
	require.Fail(t, "no tensor "+name)
	return nil
}

// branch is a PyTorch module for a test checkpoint: tensors, submodules, and other attributes.
type branch struct {
	tensors    []shown
	names      []string
	below      map[string]*branch
	attributes func(p *pickler)
}

func treeOf(tensors []shown) *branch {
	root := &branch{below: map[string]*branch{}}
	for _, t := range tensors {
		at := root
		parts := strings.Split(t.name, ".")
		for _, part := range parts[:len(parts)-1] {
			if at.below[part] == nil {
				at.below[part] = &branch{below: map[string]*branch{}}
				at.names = append(at.names, part)
			}
			at = at.below[part]
		}
		t.name = parts[len(parts)-1]
		at.tensors = append(at.tensors, t)
	}
	return root
}

// module writes a module as torch.save(model) does.
func (p *pickler) module(b *branch, legacy bool) *pickler {
	if legacy { // the old form includes the source text of the class
		p.op("(").text("module").global("mem_transformer", "MemTransformerLM")
		p.text("mem_transformer.py").text("class MemTransformerLM(nn.Module): ...").op("tQ")
	} else {
		p.global("mem_transformer", "MemTransformerLM")
	}
	p.op(")\x81}(")
	if b.attributes != nil {
		b.attributes(p)
	}
	p.text("_buffers").emptyDict().text("_parameters").emptyDict().op("(")
	p.text("none").op("N") // a missing bias is stored as None
	for _, t := range b.tensors {
		p.text(t.name).global("torch._utils", "_rebuild_parameter").tensor(t, legacy)
		p.op("\x88").emptyDict().op("\x87R")
	}
	p.op("u").text("_modules").emptyDict().op("(")
	for _, name := range b.names {
		p.text(name).module(b.below[name], legacy)
	}
	return p.op("uub")
}
