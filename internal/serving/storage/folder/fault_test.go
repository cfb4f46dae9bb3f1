package folder

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lmserve/lmserve/internal/powercut"
	"github.com/lmserve/lmserve/internal/serving/storage"
)

var background = context.Background()

type (
	record = storage.Record
	store  = storage.Store
)

// script has steps that together call all methods of a store. Each step is one call. A step that
// fails or is interrupted must be done as a whole or not at all.
type script struct {
	epoch map[string]uint64
	at    map[string]int64
}

func newScript() *script { return &script{epoch: map[string]uint64{}, at: map[string]int64{}} }

// learned prepares a record for how the session learns its text. If how is 0, the session learns
// the text as a whole. If how is 1 or 2, it learns by lines. If how is 2, the first two lines are
// skipped.
func learned(r record, how int) record {
	if r.ByLine = how > 0; how < 2 || len(r.Text) < 2 {
		return r
	}
	r.Text[0], r.Text[len(r.Text)-1] = '\n', '\n'
	r.Skipped = []uint16{0, 1}
	return r
}

type step struct {
	name string
	do   func(s store) error
}

func (c *script) steps() []step {
	create := func(id string, start int64) step {
		return step{"create " + id, func(s store) error {
			epoch, err := s.Create(background, id, []byte(`{"id":"`+id+`"}`), start)
			if err == nil {
				c.epoch[id], c.at[id] = epoch, start
			}
			return err
		}}
	}
	add := func(id string, sizes ...int) step {
		return step{fmt.Sprint("append to ", id, sizes), func(s store) error {
			var records []record
			size := int64(0)
			for n, k := range sizes {
				letter := byte('a' + (c.at[id]+int64(n))%26)
				r := record{
					UnixMS: int64(n), Bits: float64(k) / 3, HasBaseline: n%2 == 1,
					Text: bytes.Repeat([]byte{letter}, k),
				}
				records = append(records, learned(r, n%3))
				size += int64(k)
			}
			err := s.Append(background, id, c.epoch[id], c.at[id], records...)
			if err == nil {
				c.at[id] += size
			}
			return err
		}}
	}
	keep := func(id string) step {
		return step{"snapshot of " + id, func(s store) error {
			return s.WriteSnapshot(background, id, c.epoch[id], c.at[id], func(w io.Writer) error {
				r := rand.New(rand.NewPCG(uint64(c.at[id]), 0))
				for range 500 {
					if _, err := fmt.Fprint(w, r.Uint64()); err != nil {
						return err
					}
				}
				return nil
			})
		}}
	}
	fork := func(from, id string, back int64) step {
		return step{"fork " + id, func(s store) error {
			head := []byte(`{"fork":"` + id + `"}`)
			cut := storage.Cut{Start: 0, End: c.at[from] - back}
			epoch, err := s.Fork(background, from, id, head, cut)
			if err == nil {
				c.epoch[id], c.at[id] = epoch, cut.End
			}
			return err
		}}
	}
	call := func(name string, do func(s store) error) step { return step{name, do} }
	drop := func(id string) step {
		return step{"drop a snapshot of " + id, func(s store) error {
			kept, err := s.Snapshots(background, id)
			if err != nil || len(kept) == 0 {
				return err
			}
			return s.DropSnapshot(background, id, c.epoch[id], kept[0].Offset)
		}}
	}
	remove := func(id string) step {
		return step{"delete " + id, func(s store) error {
			return s.Delete(background, id,
				c.epoch[id])
		}}
	}
	return []step{
		create("a", 0), add("a", 3), add("a", 100, 128, 128), create("b", 7), add("b", 4000),
		add("a", 20_000), keep("a"), add("a", 128), keep("a"),
		call("claim a", func(s store) error {
			got, err := s.Claim(background, "a")
			if err == nil {
				c.epoch["a"] = got.Epoch
			}
			return err
		}),
		add("a", 128), keep("a"), drop("a"), drop("a"), add("b", 128), keep("b"),
		call("trim a", func(s store) error {
			return s.Trim(background, "a", c.epoch["a"],
				c.at["a"]-128)
		}),
		add("a", 64),
		call("head of a", func(s store) error {
			return s.SetHead(background, "a", c.epoch["a"], []byte("another"))
		}),
		add("a", 1, 1, 1), drop("b"), remove("b"),
		create("b", 0), add("b", 50, 5000), keep("b"), fork("b", "f", 0), add("f", 128),
		fork("f", "g", 128), fork("b", "m", 5000), add("m", 3), fork("g", "h", 0), remove("f"),
		add("g", 10), keep("g"), remove("h"), remove("m"),
		add("a", 90, 80, 70, 60, 50, 40, 30, 20, 10), remove("a"), add("b", 128),
	}
}

func mustDump(t require.TestingT, s store) string {
	text, err := dump(s)
	require.NoError(t, err)
	return text
}

// mark is the state of a store after a step, and the number of disk events up to then.
type mark struct {
	step   string
	events int
	state  string
}

func recorded(t *testing.T) (*disk, []mark) {
	d := newDisk(filepath.Join(t.TempDir(), "data"))
	s, err := open(d.root, Options{}, d)
	require.NoError(t, err)
	marks := []mark{{step: "open", events: len(d.events)}}
	for _, x := range newScript().steps() {
		require.NoError(t, x.do(s), x.name)
		marks = append(marks, mark{x.name, len(d.events), mustDump(t, s)})
	}
	require.NoError(t, s.Close())
	return d, marks
}

func checked(t require.TestingT, dir, what string, strays bool) {
	require.NoError(t, Check(background, dir, func(d *storage.CorruptError) {
		require.True(t, strays && d.Stray, "%s: %v", what, d)
	}), what)
}

// recovered opens the folder that a power cut leaves, and requires that its state equals one of the
// states in the parameter `may`.
func recovered(
	t require.TestingT, i *powercut.Image, dir, what string, s powercut.Survivor, may ...mark,
) {
	require.NoError(t, i.Restore(dir, s))
	defer os.RemoveAll(dir)
	if _, err := os.Stat(filepath.Join(dir, versionName)); err == nil {
		checked(t, dir, what, true)
	}
	f, err := open(dir, Options{}, unsynced{})
	require.NoError(t, err, what)
	var states []string
	for _, m := range may {
		states = append(states, m.state)
	}
	require.Contains(t, states, mustDump(t, f), "%s, in or after %s", what, may[0].step)
	epoch, err := f.Create(background, "new", nil, 0)
	require.NoError(t, err)
	require.NoError(t, f.Append(background, "new", epoch, 0, record{Text: make([]byte, 10_000)}))
	all, err := f.List(background, "", 100)
	require.NoError(t, err)
	for _, x := range all {
		claimed, err := f.Claim(background, x.ID)
		require.NoError(t, err, what)
		require.NoError(t, f.Append(background, x.ID, claimed.Epoch, claimed.End,
			record{Text: []byte("more")}), what)
	}
	require.NoError(t, f.Close())
	checked(t, dir, what, false)
}

// at returns the states that a power cut after the given number of events may leave. These are the
// state after the last complete step and, if a further step had begun, the state after that step.
func at(marks []mark, events int) []mark {
	for n := range marks {
		if events == marks[n].events {
			return marks[n : n+1]
		}
		if events < marks[n].events {
			return marks[max(0, n-1) : n+1]
		}
	}
	return marks[len(marks)-1:]
}

func TestPowerCutLosesNothingAcknowledged(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	d, marks := recorded(t)
	r := rand.New(rand.NewPCG(3, 4))
	// the test takes every fifth power cut; `make test-attack` takes all
	every, first := 5, rand.IntN(5)
	if os.Getenv("LMSERVE_POWER_CUTS") != "" {
		every, first = 1, 0
	}
	t.Logf("%d steps, %d events, of which every %d from %d", len(marks), len(d.events), every,
		first)
	for n := first; n <= len(d.events); n += every {
		i := powercut.After(d.events[:n])
		survivors := map[string]powercut.Survivor{
			"nothing but what was synced": powercut.OnlySynced,
			"everything":                  powercut.Everything,
			"some":                        survivesBy(r, 50),
		}
		if i.Settled() {
			survivors = map[string]powercut.Survivor{"everything": powercut.Everything}
		}
		for name, s := range survivors {
			what := fmt.Sprintf("cut after event %d of %d, %s", n, len(d.events), name)
			recovered(t, i, filepath.Join(t.TempDir(), fmt.Sprint(n)), what, s, at(marks, n)...)
		}
	}
}

// survivesBy returns a powercut.Survivor that keeps about the given percentage of unsynced writes
// and names.
func survivesBy(r *rand.Rand, percent int) powercut.Survivor {
	some := func() bool { return r.IntN(100) < percent }
	return powercut.Survivor{Write: some, Name: some}
}

func TestAnyPartOfUnsyncedMaySurvive(t *testing.T) {
	d, marks := recorded(t)
	dir := filepath.Join(t.TempDir(), "left")
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, len(d.events)).Draw(t, "events")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		s := survivesBy(r, rapid.SampledFrom([]int{1, 50, 99}).Draw(t, "percent"))
		i := powercut.After(d.events[:n])
		recovered(t, i, dir, fmt.Sprintf("event %d", n), s, at(marks, n)...)
	})
}

var faults = map[string]error{"disk full": errNoSpace, "input/output error": errIO}

func TestAnyOperationMayFail(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	d, marks := recorded(t)
	var states []string
	for _, m := range marks[1:] {
		states = append(states, m.state)
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the test mostly waits for the disk
			for n, o := range d.operations {
				what := fmt.Sprintf("operation %d of %d, %s %s", n, len(d.operations), o.kind,
					o.name)
				failing(t, what, n, fault, states)
			}
		})
	}
}

// After a failed sync of a folder, a power cut may bring back removed files or remove new files.
// The store must therefore repeat the sync in two cases: before it overwrites a removed file, and
// before a caller sees new data.
func TestFailedSyncOfFolderLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	d, marks := recorded(t)
	var states []string
	for _, m := range marks[1:] {
		states = append(states, m.state)
	}
	const cuts = 40
	someNames := survivesBy(rand.New(rand.NewPCG(rand.Uint64(), 0)), 50)
	someNames.Write = powercut.OnlySynced.Write
	for n, o := range d.operations {
		if o.kind != "syncdir" || !attacked(10) {
			continue
		}
		what := fmt.Sprintf("operation %d, %s %s", n, o.kind, o.name)
		d, from, marks := failing(t, what, n, errIO, states)
		i, settled := powercut.After(d.events[:from]), false
		for k := from; k < min(from+cuts, len(d.events)); k++ {
			may := at(marks, k)
			if strings.HasPrefix(may[0].step, "delete") {
				// the failed delete may leave the session: a power cut may bring the session back
				break
			}
			// Without a sync since the last tested power cut, this power cut would leave the same
			// synced content.
			if settled || len(may) == 1 {
				dir := filepath.Join(t.TempDir(), "left")
				cut := fmt.Sprintf("%s, cut after event %d", what, k)
				recovered(t, i, dir, cut, powercut.OnlySynced, may...)
				recovered(t, i, dir, cut+", some names", someNames, may...)
			}
			i.Add(d.events[k])
			settled = d.events[k].Kind == powercut.Sync || d.events[k].Kind == powercut.SyncDir
		}
	}
}

// attacked reports whether to run a test case: with probability 1/every, or always under `make
// test-attack`.
func attacked(every int) bool {
	return os.Getenv("LMSERVE_POWER_CUTS") != "" || rand.IntN(every) == 0
}

// After a process is killed, another process opens the folder. Everything that the second process
// reports must survive a power cut.
func TestPowerCutAfterKillLosesNothingTold(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	d, marks := recorded(t)
	for n, o := range d.operations {
		if !attacked(10) {
			continue
		}
		what := fmt.Sprintf("killed in operation %d, %s %s", n, o.kind, o.name)
		d := newDisk(filepath.Join(t.TempDir(), "data"))
		d.fault = func(o operation) error {
			if o.n >= n {
				return errIO
			}
			return nil
		}
		var last int
		s, err := open(d.root, Options{}, d)
		if err == nil {
			for _, x := range newScript().steps() {
				if last++; x.do(s) != nil {
					break
				}
			}
			require.NoError(t, s.unlock())
		}
		d.fault = nil
		s, err = open(d.root, Options{}, d)
		require.NoError(t, err, what)
		told := mark{step: "told", state: mustDump(t, s)}
		require.Contains(t, []string{marks[max(0, last-1)].state, marks[last].state}, told.state,
			what)
		i := powercut.After(d.events)
		require.NoError(t, s.Close())
		recovered(t, i, filepath.Join(t.TempDir(), "left"), what, powercut.OnlySynced, told)
	}
}

// failing runs the whole script on a disk, and makes operation n fail with fault. states are the
// states after each step without the fault. The failed step must leave the state before or after
// the step. If it leaves the state before, repeating the step must succeed. from is the number of
// disk events before the failure.
func failing(
	t *testing.T, what string, n int, fault error, states []string,
) (d *disk, from int, marks []mark) {
	d = newDisk(filepath.Join(t.TempDir(), "data"))
	armed := true
	d.fault = func(o operation) error {
		if armed && o.n == n {
			armed, from = false, len(d.events)
			return fault
		}
		return nil
	}
	s, err := open(d.root, Options{}, d)
	if err != nil {
		require.ErrorIs(t, err, fault, what)
		s, err = open(d.root, Options{}, d)
		require.NoError(t, err, what)
	}
	before := ""
	marks = []mark{{step: "open", events: len(d.events)}}
	for k, x := range newScript().steps() {
		if err := x.do(s); err != nil {
			require.ErrorIs(t, err, fault, what)
			if now := mustDump(t, s); now == before {
				require.NoError(t, x.do(s), what)
			} else {
				require.Equal(t, states[k], now, "%s in %s", what, x.name)
			}
		}
		require.Equal(t, states[k], mustDump(t, s), "%s behind %s", what, x.name)
		before = states[k]
		marks = append(marks, mark{x.name, len(d.events), before})
	}
	if err := s.Close(); err != nil {
		require.ErrorIs(t, err, fault, what)
	}
	checked(t, d.root, what, true)
	s, err = open(d.root, Options{}, unsynced{})
	require.NoError(t, err, what)
	require.Equal(t, before, mustDump(t, s), what)
	require.NoError(t, s.Close(), what)
	return d, from, marks
}

func TestDeletedTextIsInNoFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, err := open(dir, Options{}, unsynced{})
	require.NoError(t, err)
	secret, other := []byte("a secret that nobody is to find"), []byte("what all may see")
	found := func(what []byte) (n int) {
		require.NoError(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				content, reading := os.ReadFile(path)
				n, err = n+bytes.Count(content, what), reading
			}
			return err
		}))
		return n
	}
	public, err := s.Create(background, "public", nil, 0)
	require.NoError(t, err)
	for n := range int64(3) {
		id, fork := fmt.Sprint("secret-", n), fmt.Sprint("secret-fork-", n)
		epoch, err := s.Create(background, id, secret, 0)
		require.NoError(t, err)
		for k := range int64(40) {
			require.NoError(t, s.Append(background, id, epoch, k*int64(len(secret)),
				record{Text: secret}))
			at := (40*n + k) * int64(len(other))
			require.NoError(t, s.Append(background, "public", public, at, record{Text: other}))
		}
		require.NoError(t, s.WriteSnapshot(background, id, epoch, 0, func(w io.Writer) error {
			_, err := w.Write(secret)
			return err
		}))
		require.Greater(t, found(secret), 40)
		_, err = s.Fork(background, id, fork, nil, storage.Cut{Start: int64(len(secret)),
			End: 21 * int64(len(secret))})
		require.NoError(t, err)
		require.NoError(t, s.Delete(background, id, 0))
		require.Equal(t, 20, found(secret), "what the fork has, and not more")
		require.NoError(t, s.Delete(background, fork, 0))
		require.Zero(t, found(secret))
	}
	require.Zero(t, found([]byte("secret-")), "nor their names")
	require.Equal(t, 120, found(other))
	require.NoError(t, s.Close())
	checked(t, dir, "", false)
}
