package sessionlog

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// victim is a folder that is damaged again and again, and what it was before.
type victim struct {
	dir     string
	pages   [][]byte // of the database
	values  []span
	used    []bool
	root    int
	want    map[string]string // by session
	holders []map[string]bool // by page: sessions of which it has something
}

func newVictim(t *testing.T, sessions int) *victim {
	dir, _ := sample(t, sessions)
	s, err := Open(dir, Options{}) // as every start of a server, it erases the free pages
	require.NoError(t, err)
	v := &victim{dir: dir, want: contents(t, s)}
	require.NoError(t, s.Close())
	content, err := os.ReadFile(v.path())
	require.NoError(t, err)
	v.pages = slices.Collect(slices.Chunk(content, pageBytes))
	v.holders = make([]map[string]bool, len(v.pages))
	f := &Folder{dir: dir, environment: environment{files: osFiles{}}}
	err = f.withDatabase(func(db file, size int64) error {
		l, err := inspectPages(db, size, v.hold, func(d *CorruptError) { t.Error(d) })
		v.used, v.root = l.used, int(l.meta.root)
		return err
	})
	require.NoError(t, err)
	return v
}

func (v *victim) path() string { return filepath.Join(v.dir, databaseName) }

// hold notes on which pages a key and its value are.
func (v *victim) hold(bucket string, key, value []byte, at int64) {
	id, _, err := splitKey(key)
	if bucket == sessionBucket {
		id, err = string(key), nil
	}
	if err != nil {
		return // of the store itself
	}
	first, last := (at-int64(len(key)))/pageBytes, (at+int64(len(value))-1)/pageBytes
	for page := first; page <= last; page++ {
		if v.holders[page] == nil {
			v.holders[page] = map[string]bool{}
		}
		v.holders[page][id] = true
	}
	v.values = append(v.values, span{id, int(first), int(last)})
}

// span is the pages that a key and its value are on.
type span struct {
	id          string
	first, last int
}

// leads tells whether a page leads to others, as the newer of the two meta pages does.
func (v *victim) leads(page int) bool {
	return page < 2 || page == v.root || v.holders[page] == nil
}

// on is how many sessions have something on some pages.
func (v *victim) on(pages ...int) int {
	all := map[string]bool{}
	for _, page := range pages {
		for id := range v.holders[page] {
			all[id] = true
		}
	}
	return len(all)
}

// serves opens a damaged folder. A session that is there without an error is what it was, to the
// byte. It tells of how many sessions there is an error, and how many are gone without a trace.
func (v *victim) serves(t require.TestingT, what, dir string, o Options) (touched, gone []string) {
	s, err := open(dir, o, environment{files: unsyncedFiles{}, unsynced: true})
	require.NoError(t, err, what)
	got := contents(t, s)
	require.NoError(t, s.Close(), what)
	for id, text := range v.want {
		switch found, listed := got[id]; {
		case !listed:
			gone = append(gone, id)
		case found == "":
			touched = append(touched, id)
		default:
			require.Equal(t, text, found, "%s: session %s", what, id)
		}
	}
	for id, text := range got { // under a damaged name there is nothing that could be used
		require.True(t, v.want[id] != "" || text == "", "%s: session %s", what, id)
	}
	return touched, gone
}

// rescues rescues what reads of a damaged folder: sessions that the damage does not touch are whole
// in the new one, and nothing in it is damaged.
func (v *victim) rescues(t *testing.T, what, dir string, touched, gone []string) {
	out := filepath.Join(t.TempDir(), "out")
	rescued := map[string]Rescued{}
	require.NoError(t, Rescue(background, dir, out, RescueOptions{
		Session: func(r Rescued) { rescued[r.ID] = r },
		Damage:  func(*CorruptError) {}, Progress: func(int64, int64) {},
	}), what)
	require.NoError(t, Check(background, out, func(d *CorruptError) {
		require.True(t, d.Stray, "%s: %v", what, d)
	}))
	s, err := OpenUnsynced(out)
	require.NoError(t, err, what)
	got := contents(t, s)
	require.NoError(t, s.Close())
	for id, text := range v.want {
		switch {
		case !slices.Contains(touched, id) && !slices.Contains(gone, id):
			require.Equal(t, text, got[id], "%s: session %s", what, id)
		case got[id] != text && slices.Contains(touched, id):
			require.NotEmpty(t, rescued[id].Lost, "%s: session %s", what, id)
		}
	}
}

// damaged is a copy of the folder with another database.
func (v *victim) damaged(t *testing.T, pages [][]byte) string {
	dir := copied(t, t.TempDir(), v.dir)
	path := filepath.Join(dir, databaseName)
	require.NoError(t, os.WriteFile(path, bytes.Join(pages, nil), 0o600))
	return dir
}

// held holds a damaged folder to the rules: read only, opened for writing, and rescued, it has lost
// no session but those that had something on the damaged pages, and one at the most that may have
// had; none without a trace unless every page with a trace of it is damaged.
func (v *victim) held(t *testing.T, what string, pages [][]byte, bad ...int) {
	dir := v.damaged(t, pages)
	touched, gone := v.serves(t, what, dir, Options{ReadOnly: true})
	v.rescues(t, what, dir, touched, gone)
	again, goneAgain := v.serves(t, what, dir, Options{})
	require.ElementsMatch(t, touched, again, what)
	require.ElementsMatch(t, gone, goneAgain, what)
	// With a page that leads to others and one of these, nobody knows what was on the latter.
	if len(bad) == 1 || !slices.ContainsFunc(bad, v.leads) {
		require.LessOrEqual(t, len(touched)+len(gone), v.on(bad...)+len(bad), what)
	}
	for _, x := range v.values {
		lost := slices.ContainsFunc(bad, func(page int) bool { return page >= x.first && page <= x.last })
		require.True(t, lost || !slices.Contains(gone, x.id), "%s: session %s is not listed", what, x.id)
	}
}

// fullest is how many sessions the page has something of that has something of most.
func (v *victim) fullest() (most int) {
	for page := range v.pages {
		most = max(most, v.on(page))
	}
	return most
}

func (v *victim) inUse() (pages []int) {
	for page := range v.pages {
		if page < len(v.used) && v.used[page] {
			pages = append(pages, page)
		}
	}
	return pages
}

func TestADamagedPageTakesOnlyItsOwnSessions(t *testing.T) {
	v := newVictim(t, 60)
	r := rand.New(rand.NewPCG(5, 6))
	inUse := v.inUse()
	for _, page := range inUse {
		other := inUse[r.IntN(len(inUse))]
		for name, content := range map[string][]byte{
			"zeros":                make([]byte, pageBytes),
			"another page":         v.pages[other],
			"half of another page": slices.Concat(v.pages[page][:pageBytes/2], v.pages[other][pageBytes/2:]),
		} {
			if bytes.Equal(content, v.pages[page]) {
				continue
			}
			pages := slices.Clone(v.pages)
			pages[page] = content
			v.held(t, fmt.Sprintf("%s at page %d of %d (%d)", name, page, len(v.pages), other), pages, page)
		}
	}
}

func TestSwappedPagesTakeOnlyTheirOwnSessions(t *testing.T) {
	v := newVictim(t, 60)
	inUse := v.inUse()
	for n := range inUse[1:] {
		a, b := inUse[n], inUse[n+1]
		if b < 2 {
			continue // then neither meta page is one
		}
		pages := slices.Clone(v.pages)
		pages[a], pages[b] = pages[b], pages[a]
		v.held(t, fmt.Sprintf("pages %d and %d of %d swapped", a, b, len(v.pages)), pages, a, b)
	}
}

func TestATruncatedDatabaseKeepsWhatIsBefore(t *testing.T) {
	v := newVictim(t, 60)
	for size := range len(v.pages) {
		what := fmt.Sprintf("%d pages of %d", size, len(v.pages))
		var bad []int
		for page := size; page < len(v.pages); page++ {
			bad = append(bad, page)
		}
		s, err := Open(v.damaged(t, v.pages[:size]), Options{})
		if size < len(v.pages)/2 && err != nil {
			require.ErrorIs(t, err, ErrCorrupt, what) // nothing is left that could be read
			continue
		}
		require.NoError(t, err, what)
		require.NoError(t, s.Close())
		v.held(t, what, v.pages[:size], bad...)
	}
}

// bitStep is how many bits are left out between two that are tried; odd, so that all eight bits of
// bytes are. LMSERVE_BIT_STEP=1 tries each.
func bitStep(t *testing.T, otherwise int64) int64 {
	text := os.Getenv("LMSERVE_BIT_STEP")
	if text == "" {
		return otherwise
	}
	step, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err, "LMSERVE_BIT_STEP")
	return step
}

func TestAFlippedBitTakesOnlyItsOwnSessions(t *testing.T) {
	v := newVictim(t, 40)
	tried, worst, most := 0, 0, map[int]int{}
	for _, page := range v.inUse() {
		bound := v.on(page)
		if v.leads(page) { // a bit of it may lose one that it leads to
			bound = v.fullest()
		}
		step := bitStep(t, 3001)
		for bit := int64(page) % step; bit < 8*pageBytes; bit += step {
			flipped(t, v.path(), int64(page)*pageBytes*8+bit, func() {
				what := fmt.Sprintf("bit %d of byte %d of page %d", bit%8, bit/8, page)
				touched, gone := v.serves(t, what, v.dir, Options{ReadOnly: true})
				require.Empty(t, gone, what)
				tried++
				worst = max(worst, len(touched))
				most[len(touched)]++
				require.LessOrEqual(t, len(touched), bound+1, what)
			})
		}
	}
	t.Logf("%d bits; none touched more than %d sessions of %d; %v", tried, worst, len(v.want), most)
}

func TestEveryBitOfASnapshotIsLookedAt(t *testing.T) {
	v := newVictim(t, 0)
	s, err := Open(v.dir, Options{ReadOnly: true})
	require.NoError(t, err)
	defer s.Close()
	tried, read := 0, func(io.Reader) error { return nil }
	for _, name := range files(t, v.dir) {
		id, at, ok := parseSnapshotName(filepath.Base(name))
		if !ok {
			continue
		}
		require.NoError(t, s.ReadSnapshot(background, id, at, read))
		info, err := os.Stat(filepath.Join(v.dir, name))
		require.NoError(t, err)
		step := bitStep(t, 101)
		for bit := int64(0); bit < 8*info.Size(); bit += step {
			flipped(t, filepath.Join(v.dir, name), bit, func() {
				var damage *CorruptError
				require.ErrorAs(t, s.ReadSnapshot(background, id, at, read), &damage)
				require.Equal(t, id, damage.Session)
				require.Equal(t, at, damage.Offset)
				tried++
			})
		}
	}
	require.Positive(t, tried)
	require.Equal(t, v.want, contents(t, s))
}
