package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/serving/storage"
)

func pages(t *testing.T, b Backend) {
	s := started(t, b)
	want := map[string]int64{}
	var mu sync.Mutex
	var wait sync.WaitGroup
	for w := range 8 {
		wait.Go(func() {
			for i := w; i < 250; i += 8 {
				id := fmt.Sprintf("%x-%d", i*2654435761%1000, i)
				epoch, err := s.Create(background, id, []byte(id), 0)
				if err == nil && i%3 == 0 {
					err = s.Append(background, id, epoch, 0, record(id))
				}
				mu.Lock()
				if want[id] = 0; i%3 == 0 {
					want[id] = int64(len(id))
				}
				mu.Unlock()
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	for _, limit := range []int{1, 7, 250, 1000} {
		got := map[string]int64{}
		after := ""
		for {
			page, err := s.List(background, after, limit)
			require.NoError(t, err)
			for i, found := range page {
				require.Greater(t, found.ID, after)
				require.Equal(t, found.ID, string(found.Head))
				require.NoError(t, found.Err)
				after = found.ID
				got[found.ID] = found.End
				require.Less(t, i, limit)
			}
			if len(page) < limit {
				break
			}
		}
		require.Equal(t, want, got)
	}
	_, err := s.List(background, "", 0)
	require.ErrorIs(t, err, storage.ErrInvalid)
}

func limits(t *testing.T, b Backend) {
	s := started(t, b)
	for _, id := range []string{"", "-a", "A", "a.b", "a/b", "../a", "a\x00", "é",
		strings.Repeat("a", storage.MaxIDBytes+1)} {
		_, err := s.Create(background, id, nil, 0)
		require.ErrorIs(t, err, storage.ErrInvalid, "%q", id)
		_, err = s.Get(background, id)
		require.ErrorIs(t, err, storage.ErrNotFound, "%q", id)
	}
	long := strings.Repeat("z", storage.MaxIDBytes)
	epoch := create(t, s, long)
	_, err := s.Create(background, "a", nil, -1)
	require.ErrorIs(t, err, storage.ErrInvalid)
	big := make([]byte, storage.MaxHeadBytes+1)
	_, err = s.Create(background, "a", big, 0)
	require.ErrorIs(t, err, storage.ErrInvalid)
	require.ErrorIs(t, s.SetHead(background, long, epoch, big), storage.ErrInvalid)
	for _, n := range []int{0, storage.MaxTextBytes + 1} {
		err := s.Append(background, long, epoch, 0, record("good"),
			storage.Record{Text: make([]byte, n)})
		require.ErrorIs(t, err, storage.ErrInvalid)
	}
	require.ErrorIs(t, s.Append(background, long, epoch, 0), storage.ErrInvalid)
	require.ErrorIs(t, s.Append(background, long, epoch, -1, record("x")), storage.ErrInvalid)
	far, err := s.Create(background, "far", nil, math.MaxInt64-3)
	require.NoError(t, err)
	require.ErrorIs(t, s.Append(background, "far", far, math.MaxInt64-3, record("12"),
		record("34")), storage.ErrInvalid)
	require.NoError(t, s.Append(background, "far", far, math.MaxInt64-3, record("12")))
	require.Empty(t, text(t, s, long, 0))
}

func canceled(t *testing.T, b Backend) {
	s := started(t, b)
	epoch := create(t, s, "a")
	require.NoError(t, s.Append(background, "a", epoch, 0, record("x")))
	ctx, cancel := context.WithCancel(background)
	cancel()
	_, err := s.Create(ctx, "b", nil, 0)
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.Claim(ctx, "a")
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.Get(ctx, "a")
	require.ErrorIs(t, err, context.Canceled)
	_, err = s.List(ctx, "", 10)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, s.Append(ctx, "a", epoch, 1, record("y")), context.Canceled)
	require.ErrorIs(t, s.Read(ctx, "a", 0, nil), context.Canceled)
	require.ErrorIs(t, s.WriteSnapshot(ctx, "a", epoch, 1, writer("x")), context.Canceled)
	require.ErrorIs(t, s.Delete(ctx, "a", epoch), context.Canceled)
	require.Equal(t, "x", text(t, s, "a", 0))

	// The test cancels calls of Append while they run. If Append returns an error, no record may
	// have been added.
	at := int64(1)
	for range 200 {
		ctx, cancel := context.WithCancel(background)
		go cancel()
		if err := s.Append(ctx, "a", epoch, at, record("z")); err == nil {
			at++
		} else {
			require.ErrorIs(t, err, context.Canceled)
		}
		found, err := s.Get(background, "a")
		require.NoError(t, err)
		require.Equal(t, at, found.End)
	}
}

func concurrent(t *testing.T, b Backend) {
	s := started(t, b)
	const sessions, each = 32, 40
	var wait sync.WaitGroup
	for w := range sessions {
		wait.Go(func() {
			id := fmt.Sprintf("session-%d", w)
			epoch, err := s.Create(background, id, nil, 0)
			at := int64(0)
			for i := 0; i < each && err == nil; i++ {
				r := record(strings.Repeat(fmt.Sprintf("%d:%d ", w, i), 1+i%30))
				err = s.Append(background, id, epoch, at, r)
				at += int64(len(r.Text))
				if i%16 == 15 && err == nil {
					err = s.WriteSnapshot(background, id, epoch, at, writer(id))
				}
				if i%20 == 19 && err == nil {
					err = s.Read(background, id, 0,
						func(int64, storage.Record) error { return nil })
				}
			}
			if w%8 == 7 && err == nil {
				err = s.Delete(background, id, epoch)
			}
			if err != nil {
				t.Errorf("%s: %v", id, err)
			}
		})
	}
	wait.Wait()
	for w := range sessions {
		id := fmt.Sprintf("session-%d", w)
		if w%8 == 7 {
			_, err := s.Get(background, id)
			require.ErrorIs(t, err, storage.ErrNotFound)
			continue
		}
		var want strings.Builder
		for i := range each {
			want.WriteString(strings.Repeat(fmt.Sprintf("%d:%d ", w, i), 1+i%30))
		}
		require.True(t, want.String() == text(t, s, id, 0), id)
	}
}

// rivals makes several writers compete: each claims the same session from the others, and appends
// to it. At the end the log must have exactly the records whose appends were confirmed.
func rivals(t *testing.T, b Backend) {
	s := started(t, b)
	stores := []storage.Store{s, b.other(t, s)}
	create(t, s, "a")
	var mu sync.Mutex
	accepted := map[int64]string{}
	var wait sync.WaitGroup
	for w := range 4 {
		s := stores[w%2]
		wait.Go(func() {
			for i := range 30 {
				mine, err := s.Claim(background, "a")
				if err != nil {
					t.Error(err)
					return
				}
				for at, k := mine.End, 0; k < 3; k++ {
					r := record(fmt.Sprintf("<%d.%d.%d>", w, i, k))
					if err = s.Append(background, "a", mine.Epoch, at, r); err != nil {
						break
					}
					mu.Lock()
					accepted[at] = string(r.Text)
					mu.Unlock()
					at += int64(len(r.Text))
				}
				if err != nil && !errors.Is(err, storage.ErrFenced) {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	got, err := read(s, "a", 0)
	require.NoError(t, err)
	for _, l := range got {
		require.Equal(t, accepted[l.at], string(l.r.Text))
	}
	require.Equal(t, len(accepted), len(got))
}

func closed(t *testing.T, b Backend) {
	s := open(t, b)
	epoch := create(t, s, "a")
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Close(), storage.ErrClosed)
	_, err := s.Get(background, "a")
	require.ErrorIs(t, err, storage.ErrClosed)
	_, err = s.List(background, "", 1)
	require.ErrorIs(t, err, storage.ErrClosed)
	require.ErrorIs(t, s.Append(background, "a", epoch, 0, record("x")), storage.ErrClosed)
	require.ErrorIs(t, s.WriteSnapshot(background, "a", epoch, 0, writer("x")), storage.ErrClosed)
}

// listedMeanwhile lists sessions while sessions are made and deleted. Each session that exists all
// the time must be listed exactly once.
func listedMeanwhile(t *testing.T, b Backend) {
	s := started(t, b)
	changed := b.other(t, s)
	const stay = 20
	for n := range stay {
		_, err := s.Create(background, fmt.Sprintf("%03d", 10*n), nil, 0)
		require.NoError(t, err)
	}
	stop, wait := make(chan struct{}), sync.WaitGroup{}
	wait.Go(func() {
		for n := 0; ; n = (n + 7) % (10 * stay) {
			select {
			case <-stop:
				return
			default:
			}
			if n%10 == 0 {
				continue
			}
			id := fmt.Sprintf("%03d", n)
			epoch, err := changed.Create(background, id, nil, 0)
			if err = errors.Join(err, changed.Delete(background, id, epoch)); err != nil {
				t.Errorf("session %s: %v", id, err)
				return
			}
		}
	})
	for range 5 {
		seen := 0
		for after := ""; ; {
			page, err := s.List(background, after, 3)
			require.NoError(t, err)
			if len(page) == 0 {
				break
			}
			for _, found := range page {
				require.NoError(t, found.Err)
				require.Greater(t, found.ID, after)
				if after = found.ID; strings.HasSuffix(after, "0") {
					seen++
				}
			}
		}
		require.Equal(t, stay, seen)
	}
	close(stop)
	wait.Wait()
}
