package storetest

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

// other opens a second store over the same sessions if the backend is shared. Otherwise it returns
// s.
func (b Backend) other(t *testing.T, s storage.Store) storage.Store {
	if !b.Shared {
		return s
	}
	return started(t, b)
}

// Stops makes a fixed series of writes. After each write it calls stop, which stops the store or
// its server, and opens the store again. All confirmed writes must still be there.
func Stops(t *testing.T, b Backend, stop func(storage.Store) error) { restarts(t, b, stop) }

// instances opens two stores over the same sessions. Each store must read what the other store
// wrote. After a claim through one store, the other store must refuse writes with the old epoch.
func instances(t *testing.T, b Backend) {
	one, two := started(t, b), started(t, b)
	first := create(t, one, "a")
	require.NoError(t, one.Append(background, "a", first, 0, record("one")))
	require.NoError(t, one.WriteSnapshot(background, "a", first, 3, writer("state")))
	require.Equal(t, "one", text(t, two, "a", 0))
	require.Equal(t, "state", snapshot(t, two, "a", 3))
	_, err := two.Create(background, "a", nil, 0)
	require.ErrorIs(t, err, storage.ErrExists)

	claimed, err := two.Claim(background, "a")
	require.NoError(t, err)
	require.Greater(t, claimed.Epoch, first)
	require.Equal(t, int64(3), claimed.End)
	for name, write := range map[string]func() error{
		"append": func() error { return one.Append(background, "a", first, 3, record("two")) },
		"head":   func() error { return one.SetHead(background, "a", first, nil) },
		"snapshot": func() error {
			return one.WriteSnapshot(background, "a", first, 0,
				writer("x"))
		},
		"trim":   func() error { return one.Trim(background, "a", first, 3) },
		"drop":   func() error { return one.DropSnapshot(background, "a", first, 3) },
		"delete": func() error { return one.Delete(background, "a", first) },
	} {
		require.ErrorIs(t, write(), storage.ErrFenced, name)
	}
	// While one store writes a snapshot, the second store claims the session. So the snapshot must
	// be refused.
	require.ErrorIs(t, two.WriteSnapshot(background, "a", claimed.Epoch, 0,
		func(w io.Writer) error {
			_, err := one.Claim(background, "a")
			return errors.Join(err, writer("late")(w))
		}), storage.ErrFenced)
	require.Equal(t, []int64{3}, offsets(t, one, "a"))
	got, err := one.Claim(background, "a")
	require.NoError(t, err)
	fork, err := two.Fork(background, "a", "fork", nil, storage.Cut{End: 3})
	require.NoError(t, err)
	require.NoError(t, one.Delete(background, "a", got.Epoch))
	_, err = two.Get(background, "a")
	require.ErrorIs(t, err, storage.ErrNotFound)
	require.Equal(t, "state", snapshot(t, one, "fork", 3), "a fork keeps what it shares")
	require.Greater(t, create(t, two, "a"), got.Epoch, "an epoch is never given out twice")
	require.NoError(t, one.Delete(background, "fork", fork))
}

// idleCuts makes many concurrent reads, and then breaks all connections while they are idle. The
// next read must still succeed, on a new connection.
func idleCuts(t *testing.T, b Backend) {
	s := started(t, b)
	create(t, s, "a")
	for range 3 {
		var reading sync.WaitGroup
		for range 50 {
			reading.Go(func() {
				_, err := s.List(background, "", 10)
				assert.NoError(t, err)
			})
		}
		reading.Wait()
		require.Positive(t, b.Cut(), "no connection was there to be cut")
		_, err := s.Get(background, "a")
		require.NoError(t, err)
	}
}

func cuts(t *testing.T, b Backend) {
	broken := 0
	Histories(t, b, 4, 200, func() { broken += b.Cut() })
	require.Positive(t, broken, "no connection was there to be cut")
}

// Histories lets several writers write while it repeatedly calls the function disturb. disturb may
// cut connections or kill the store's server, and must repair the damage before it returns.
// Afterwards the sessions must contain every confirmed write, and no write that was refused or not
// tried. A write of unknown outcome must be there as a whole or not at all.
//
// The pause between two calls of disturb must be long enough to connect again. A slow computer
// needs a longer pause. So the pause doubles while no write succeeds between two calls.
func Histories(t *testing.T, b Backend, writers, rounds int, disturb func()) {
	s := started(t, b)
	stop, wait := make(chan struct{}), sync.WaitGroup{}
	var done atomic.Int64
	wait.Go(func() {
		for calls, before, slower := 0, int64(0), 0; ; calls++ {
			pause := time.Duration(20+37*calls%100) * time.Millisecond << slower
			select {
			case <-stop:
				return
			case <-time.After(pause):
			}
			disturb()
			now := done.Load()
			if now == before {
				slower = min(slower+1, slowest)
			} else {
				before, slower = now, 0
			}
		}
	})
	var all []*history
	var working sync.WaitGroup
	for n := range writers {
		h := &history{t: t, s: s, id: fmt.Sprintf("writer-%d", n), done: &done}
		all = append(all, h)
		working.Go(func() {
			h.claim()
			for round := range rounds {
				if h.err != nil {
					return
				}
				h.round(round)
			}
		})
	}
	working.Wait()
	close(stop)
	wait.Wait()
	failed := 0
	for _, h := range all {
		require.NoError(t, h.err, h.id)
		require.Equal(t, h.text.String(), text(t, s, h.id, 0), h.id)
		require.Equal(t, h.kept, offsets(t, s, h.id), h.id)
		for _, at := range h.kept {
			require.Equal(t, fmt.Sprint("state at ", at), snapshot(t, s, h.id, at), h.id)
		}
		failed += h.failed
	}
	t.Logf("%d of %d writes were disturbed so that their callers were told", failed, writers*rounds)
}

// history is what one writer knows about its session. No other writer writes to this session.
type history struct {
	t     *testing.T
	s     storage.Store
	id    string
	epoch uint64

	text   strings.Builder
	kept   []int64 // offsets of snapshots
	head   string
	failed int
	done   *atomic.Int64
	err    error
}

// patience is how long a store may be unavailable.
const patience = time.Minute

// slowest is how often the pause between two calls of disturb can double.
const slowest = 6

// again calls the function `do` until do returns neither ErrUnavailable nor ErrUnknown, or the time
// patience has passed. It returns the last error.
func (h *history) again(do func() error) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		err := do()
		passing := errors.Is(err, storage.ErrUnavailable) || errors.Is(err, storage.ErrUnknown)
		if !passing {
			h.done.Add(1)
			return err
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

// claim claims the session, and returns it. Before the first claim, it creates the session.
func (h *history) claim() (found storage.Session) {
	if h.epoch == 0 {
		err := h.again(func() error {
			_, err := h.s.Create(background, h.id, nil, 0)
			return err
		})
		// ErrExists means that an earlier attempt created the session
		if err != nil && !errors.Is(err, storage.ErrExists) {
			h.err = err
			return found
		}
	}
	h.err = h.again(func() (err error) {
		found, err = h.s.Claim(background, h.id)
		return err
	})
	h.epoch = found.Epoch
	return found
}

// round makes write number n: an append, a snapshot or a new head. After an error it finds out
// whether the write took place.
func (h *history) round(n int) {
	at := int64(h.text.Len())
	switch n % 4 {
	case 3:
		head := fmt.Sprint("head ", n)
		h.wrote("a head", h.s.SetHead(background, h.id, h.epoch, []byte(head)),
			func(found storage.Session) (bool, error) {
				if was := string(found.Head); was != head && was != h.head {
					return false, fmt.Errorf("the head is %q, expected %q or %q", was, h.head, head)
				}
				return string(found.Head) == head, nil
			}, func() { h.head = head })
	case 1:
		if slices.Contains(h.kept, at) {
			return
		}
		write := writer(fmt.Sprint("state at ", at))
		h.wrote("a snapshot", h.s.WriteSnapshot(background, h.id, h.epoch, at, write),
			func(storage.Session) (has bool, err error) {
				err = h.again(func() error {
					kept, err := h.s.Snapshots(background, h.id)
					has = slices.ContainsFunc(kept,
						func(k storage.Snapshot) bool { return k.Offset == at })
					return err
				})
				return has, err
			}, func() { h.kept = append(h.kept, at) })
	default:
		records := []storage.Record{record(fmt.Sprintf("<%s %d ", h.id, n)), record("and on>")}
		added := string(records[0].Text) + string(records[1].Text)
		h.wrote("an append", h.s.Append(background, h.id, h.epoch, at, records...),
			func(found storage.Session) (bool, error) {
				if found.End != at && found.End != at+int64(len(added)) {
					return false, fmt.Errorf("the log ends at offset %d, expected %d or "+
						"%d", found.End, at,
						at+int64(len(added)))
				}
				return found.End != at, nil
			}, func() { h.text.WriteString(added) })
	}
}

// wrote records a write that returned err, and calls the function `note` if the write took place.
// After a temporary error it claims the session again. The function made then reports whether the
// write took place, which is possible only if the outcome was unknown.
func (h *history) wrote(
	what string, err error, made func(storage.Session) (bool, error), note func(),
) {
	if err == nil {
		h.done.Add(1)
		note()
		return
	}
	h.failed++
	maybe := errors.Is(err, storage.ErrUnknown)
	if !maybe && !errors.Is(err, storage.ErrUnavailable) {
		h.err = err
		return
	}
	found := h.claim()
	if h.err != nil {
		return
	}
	there, wrong := made(found)
	switch {
	case wrong != nil:
		h.err = wrong
	case there && !maybe:
		h.err = fmt.Errorf("%s exists, although its write failed (%w)", what, err)
	case there:
		note()
	}
}
