package crash

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/e2e/program"
	"github.com/lmserve/lmserve/internal/powercut"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/internal/serving/storage"
	datafolder "github.com/lmserve/lmserve/internal/serving/storage/folder"
)

// recorded contains the changes of a data folder's files, and the claims that clients made
// meanwhile.
type recorded struct {
	name   string
	events []powercut.Event
	claims []dated
	begin  int // number of events before this part of the recording
}

type dated struct {
	claim
	at int
}

func (c *crash) recordLife(name string, live func(*powercut.Recorder)) *recorded {
	root := filepath.Dir(c.dir)
	require.NoError(c.t, os.MkdirAll(root, 0o700))
	r, err := powercut.NewRecorder(root)
	require.NoError(c.t, err)
	life, mu := &recorded{name: name, begin: r.Len()}, sync.Mutex{}
	note := func(x claim) {
		mu.Lock()
		defer mu.Unlock()
		life.claims = append(life.claims, dated{x, r.Len()})
	}
	c.record = r.Run
	for _, cl := range c.clients {
		cl.note = note
		for _, tw := range cl.sessions {
			cl.claim(tw, false)
		}
		for _, tw := range cl.deleted {
			cl.claim(tw, true)
		}
	}
	live(r)
	life.events = r.Events()
	c.record = nil
	return life
}

// serveSteps makes every client send `steps` requests. Requests of the kind `often` are more
// frequent.
func (c *crash) serveSteps(steps int, often string) {
	c.want(often)
	c.serveTo(c.clients, func(cl *crashClient, p *program.Process) (err error) {
		for n := 0; err == nil && n < steps; n++ {
			err = cl.step(p)
		}
		return err
	})
}

// deletionsAlone makes one client create, feed and delete sessions, without other requests. So no
// other request can sync a deletion to the disk before the client gets the answer.
func (c *crash) deletionsAlone(sessions int) {
	const bytesFed = 500
	c.serveTo(c.clients[:1], func(cl *crashClient, _ *program.Process) error {
		for range sessions {
			if err := cl.create(nil); err != nil {
				return err
			}
			tw := cl.sessions[len(cl.sessions)-1]
			for tw.acked < bytesFed {
				if err := cl.score(tw); err != nil {
					return err
				}
			}
			if err := cl.delete(tw); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *crash) serveTo(clients []*crashClient, work func(*crashClient, *program.Process) error) {
	p := c.start(nil)
	var wait sync.WaitGroup
	for _, cl := range clients {
		wait.Go(func() {
			err := cl.askAll(p)
			if err == nil {
				err = work(cl, p)
			}
			cl.http.CloseIdleConnections()
			if err != nil {
				c.t.Error(err)
			}
		})
	}
	wait.Wait()
	p.Terminate()
	p.Wait(c.t)
}

// known merges the claims made in the first `events` events into one claim for each session.
func (r *recorded) known(events int) map[*twin]claim {
	all := map[*twin]claim{}
	for _, x := range r.claims {
		if x.at <= events {
			have := all[x.session]
			x.made, x.deleted = x.made || have.made, x.deleted || have.deleted
			x.deleting = x.deleting || have.deleting
			x.acked, x.sent = max(x.acked, have.acked), max(x.sent, have.sent)
			all[x.session] = x.claim
		}
	}
	return all
}

// after checks the state of a disk after a simulated power cut. The power cut comes after the first
// `events` recorded events.
func (c *crash) after(r *recorded, events int, disk string) error {
	dir, known := filepath.Join(disk, filepath.Base(c.dir)), r.known(events)
	var gone, living []*twin
	for _, x := range r.claims {
		if known[x.session].deleted {
			gone = append(gone, x.session)
		} else {
			living = append(living, x.session)
		}
	}
	gone, living = unique(gone), unique(living)
	hidden := secrets(gone, living)
	c.searched += len(hidden)
	if _, err := os.Stat(filepath.Join(dir, "version")); errors.Is(err, fs.ErrNotExist) {
		for _, x := range known {
			if x.made && !x.deleting {
				return errors.New("there is no data folder")
			}
		}
		return nil
	}
	// A running backup keeps files that are deleted meanwhile. The files disappear when the backup
	// ends or the folder is opened again.
	if !r.backingUp(events) {
		if err := nowhere(dir, hidden); err != nil {
			return err
		}
	}
	if err := check(c.t, dir, true); err != nil {
		return err
	}
	if err := c.opened(dir, known); err != nil {
		return err
	}
	return errors.Join(check(c.t, dir, false), nowhere(dir, hidden))
}

func (r *recorded) backingUp(events int) bool {
	files := map[string]bool{}
	for _, e := range r.events[:events] {
		if !strings.Contains(e.Name, "/backup/") {
			continue
		}
		switch e.Kind {
		case powercut.Name:
			files[e.Name] = true
		case powercut.Unname:
			delete(files, e.Name)
		}
	}
	return len(files) > 0
}

func unique(all []*twin) (some []*twin) {
	for _, tw := range all {
		if !slices.Contains(some, tw) {
			some = append(some, tw)
		}
	}
	return some
}

// check checks a data folder and returns the first problem found. If strays is true, superfluous
// files are not a problem.
func check(t *testing.T, dir string, strays bool) (first error) {
	err := datafolder.Check(t.Context(), dir, func(d *storage.CorruptError) {
		if first == nil && !(strays && d.Stray) {
			first = d
		}
	})
	return errors.Join(first, err)
}

func (c *crash) opened(dir string, known map[*twin]claim) (err error) {
	store, err := datafolder.Open(dir, datafolder.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	mg, err := session.NewManager(c.model, session.Options{Store: store, ReplayMax: time.Hour})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, mg.Drain(c.t.Context())) }()
	page, next, err := mg.List(session.Caller{Admin: true}, "", 1000)
	if err != nil || next != "" {
		return fmt.Errorf("list: %w, next %q", err, next)
	}
	there := map[string]session.Info{}
	for _, info := range page {
		there[info.ID] = info
	}
	for tw, x := range known {
		info, listed := there[tw.id]
		delete(there, tw.id)
		switch {
		case !listed && x.made && !x.deleting:
			return fmt.Errorf("session %s at offset %d is lost", tw.id, x.acked)
		case listed && x.deleted:
			return fmt.Errorf("session %s is deleted, and is there", tw.id)
		case listed:
			if err := c.same(store, tw, x, info); err != nil {
				return err
			}
		}
	}
	for id, info := range there {
		return fmt.Errorf("session %s at offset %d, of which nobody knows: %v", id, info.Offset,
			info.Err)
	}
	return nil
}

// same compares a session's offset and text with a client's claim. In one of four calls, it also
// replays the session.
func (c *crash) same(store storage.Store, tw *twin, x claim, info session.Info) error {
	if info.Err != nil {
		return info.Err
	}
	if int(info.Offset) < x.acked || int(info.Offset) > x.sent {
		return fmt.Errorf("session %s is at offset %d, expected %d, which was acknowledged, to %d",
			tw.id, info.Offset, x.acked, x.sent)
	}
	found, err := store.Get(c.t.Context(), tw.id)
	if err != nil {
		return err
	}
	err = store.Read(c.t.Context(), tw.id, found.Start, func(at int64, r storage.Record) error {
		if want := tw.text[at:][:len(r.Text)]; !bytes.Equal(r.Text, want) {
			return fmt.Errorf("session %s at offset %d: text %q, expected %q", tw.id, at, r.Text,
				want)
		}
		return nil
	})
	if err != nil || c.rand.IntN(4) > 0 {
		return err
	}
	replayed, err := session.Replay(c.t.Context(), c.model, store, tw.id, 1, func(int64, int64) {})
	return errors.Join(err, replayed.First)
}

// moments draws random moments for power cuts. A moment is the number of events before the cut.
func (c *crash) moments(r *recorded, most int) []int {
	all := c.rand.Perm(len(r.events) + 1 - r.begin)
	all = all[:min(most, len(all))]
	for n := range all {
		all[n] += r.begin
	}
	return all
}

// cuts simulates a power cut at each moment. After each cut, it checks several possible states of
// the disk. cuts returns the first error.
func (c *crash) cuts(r *recorded, moments []int) error {
	slices.Sort(moments)
	image, done := powercut.NewImage(), 0
	for _, n := range moments {
		for ; done < n; done++ {
			image.Add(r.events[done])
		}
		percent := []int{1, 10, 90, 99}[c.rand.IntN(4)]
		survivors := []powercut.Survivor{
			powercut.OnlySynced, some(c.rand, 50), some(c.rand, percent),
		}
		if image.Settled() {
			survivors = survivors[:1]
		}
		for k, s := range survivors {
			disk := filepath.Join(c.folder, "cut")
			if err := image.Restore(disk, s); err != nil {
				return err
			}
			if err := c.after(r, n, disk); err != nil {
				return fmt.Errorf("%s: cut after event %d of %d, disk %d: %w",
					r.name, n, len(r.events), k, err)
			}
			if err := os.RemoveAll(disk); err != nil {
				return err
			}
		}
	}
	return nil
}

func some(r *rand.Rand, percent int) powercut.Survivor {
	draw := func() bool { return r.IntN(100) < percent }
	return powercut.Survivor{Write: draw, Name: draw}
}

// The test records a server's system calls and simulates power cuts at random moments. Any part of
// the unsynced writes may survive; all acknowledged text must be on the disk, and nothing else.
// LMSERVE_POWER_CUTS is the number of cuts; without this variable the test does not run.
// LMSERVE_CRASH_SEED repeats the requests and the moments of an earlier test.
func TestPowerCutLosesNothing(t *testing.T) {
	if os.Getenv("LMSERVE_POWER_CUTS") == "" {
		t.Skip("LMSERVE_POWER_CUTS is not set; 'make test-attack' sets it")
	}
	most := int(program.Number(t, "LMSERVE_POWER_CUTS", 0))
	seed := program.Number(t, "LMSERVE_CRASH_SEED", time.Now().UnixNano())
	c := newCrash(t, uint64(seed))
	c.keepIfFailed("LMSERVE_CRASH_SEED", seed)
	c.clients = c.clients[:3]
	life := c.recordLife("serving", func(*powercut.Recorder) {
		c.serveSteps(40, "")
		c.serveSteps(20, "deleting")
		c.deletionsAlone(8)
	})
	require.False(t, t.Failed())
	require.NoError(t, c.cuts(life, c.moments(life, most)))
	t.Logf("%s: %d events, %d claims", life.name, len(life.events), len(life.claims))
	c.report()
	require.Positive(t, c.searched)
	for _, name := range slices.Sorted(maps.Keys(careless)) {
		c.findsOut(life, name, careless[name])
	}
}

var _ program.Recording = (*powercut.Recorder)(nil).Run
