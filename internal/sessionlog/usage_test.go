package sessionlog_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/sessionlog"
)

// bill is what a store tells that its sessions are charged for.
type bill map[string]int64

func (b bill) charged(id string, bytes int64) {
	if bytes == 0 {
		delete(b, id)
		return
	}
	b[id] = bytes
}

func (b bill) sum() (n int64) {
	for _, bytes := range b {
		n += bytes
	}
	return n
}

// onlyUsed is what a folder takes, without what others leave of the disk.
func onlyUsed(s *sessionlog.Folder) sessionlog.Usage {
	u := s.Usage()
	u.Left, u.All = 0, 0
	return u
}

// What every call adds to the charges and takes from them is what a reopened folder counts.
func TestChargesThatFollowEveryCallAreThoseThatOpeningCounts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	random := rand.New(rand.NewPCG(7, 7))
	s, err := sessionlog.OpenUnsynced(dir)
	require.NoError(t, err)
	told := bill{}
	s.Meter(told.charged)
	epochs, ends := map[string]uint64{}, map[string]int64{}
	for step := range 600 {
		id := fmt.Sprint(random.IntN(12))
		if epochs[id] == 0 {
			epochs[id], err = s.Create(t.Context(), id, make([]byte, random.IntN(99)), 0)
			require.NoError(t, err)
			ends[id] = 0
			continue
		}
		switch random.IntN(12) {
		case 0:
			require.NoError(t, s.Delete(t.Context(), id, epochs[id]))
			require.NotContains(t, told, id)
			delete(epochs, id)
		case 1:
			err = s.SetHead(t.Context(), id, epochs[id], make([]byte, random.IntN(99)))
			require.NoError(t, err)
		case 2, 3:
			kept, err := s.Snapshots(t.Context(), id)
			require.NoError(t, err)
			if n := len(kept); n > 0 && kept[n-1].Offset == ends[id] {
				require.NoError(t, s.DropSnapshot(t.Context(), id, epochs[id], ends[id]))
				break
			}
			state := make([]byte, random.IntN(1<<16))
			err = s.WriteSnapshot(t.Context(), id, epochs[id], ends[id], func(w io.Writer) error {
				_, err := w.Write(state)
				return err
			})
			require.NoError(t, err)
		case 4:
			kept, err := s.Snapshots(t.Context(), id)
			require.NoError(t, err)
			if len(kept) > 0 {
				require.NoError(t, s.Trim(t.Context(), id, epochs[id], kept[0].Offset))
			}
		default:
			text := make([]byte, 1+random.IntN(9000))
			before := told[id]
			err = s.Append(t.Context(), id, epochs[id], ends[id], sessionlog.Record{Text: text})
			require.NoError(t, err)
			require.Greater(t, told[id]-before, int64(len(text)))
			ends[id] += int64(len(text))
		}
		if step%50 != 0 {
			continue
		}
		require.Zero(t, s.Usage().Temporary)
		now := onlyUsed(s)
		require.NoError(t, s.Close())
		s, err = sessionlog.OpenUnsynced(dir)
		require.NoError(t, err)
		counted := bill{}
		s.Meter(counted.charged)
		require.Equal(t, told, counted)
		require.Equal(t, now, onlyUsed(s))
		s.Meter(told.charged)
	}
	require.NoError(t, s.Close())
}

// Records of one byte are charged what they cost on the disk, and so are large ones.
func TestAChargeIsAboutWhatIsOnTheDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	for _, size := range []int{1, 16, 128, 1000, 1500, 5000, 100 << 10} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			s, err := sessionlog.OpenUnsynced(dir)
			require.NoError(t, err)
			defer s.Close()
			told := bill{}
			s.Meter(told.charged)
			records := min(4000, 8<<20/(size+100)) / 40
			for n := range 40 { // of sessions that are fed in turns
				_, err := s.Create(t.Context(), fmt.Sprintf("%036d", n), make([]byte, 300), 0)
				require.NoError(t, err)
			}
			for k := range records {
				for n := range 40 {
					id := fmt.Sprintf("%036d", n)
					r := sessionlog.Record{Text: make([]byte, size), HasBaseline: true}
					require.NoError(t, s.Append(t.Context(), id, uint64(n+1), int64(k*size), r))
				}
			}
			used := s.Usage()
			ratio := float64(used.Database) / float64(told.sum())
			require.Greater(t, ratio, .8)
			most := 1.3
			if size >= 1000 { // a page has room for few, and is left half empty
				most = 2
			}
			require.Less(t, ratio, most)
			info, err := os.Stat(filepath.Join(dir, "lmserve.db"))
			require.NoError(t, err)
			require.GreaterOrEqual(t, info.Size(), used.Database+used.Free)
		})
	}
}
