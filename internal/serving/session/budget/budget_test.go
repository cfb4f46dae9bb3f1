package budget

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func reserve(t require.TestingT, a *Account[string], bytes int64) {
	want, err := a.Reserve(bytes)
	require.NoError(t, err)
	require.Equal(t, Want[string]{}, want)
}

func TestLeastRecentlyUsedStateIsGivenUpFirst(t *testing.T) {
	b := New[string](Options{Max: 30})
	var all []*Account[string]
	for _, name := range []string{"a", "b", "c"} {
		a := b.OpenOn(nil, name)
		reserve(t, a, 10)
		a.Rest()
		all = append(all, a)
	}
	all[0].Work()
	all[1].Work()
	all[1].Rest()
	late := b.OpenOn(nil, "late")
	for _, name := range []string{"c", "b"} {
		want, err := late.Reserve(1)
		require.NoError(t, err)
		require.True(t, want.Asked)
		require.Equal(t, name, want.Victim)
	}
	want, err := late.Reserve(1)
	require.NoError(t, err)
	require.False(t, want.Asked, "somebody is at work on a")
	require.True(t, b.Waiting())
	all[0].Rest()
	<-want.Changed
	require.False(t, b.Waiting())
	holder, ok := b.Victim()
	require.True(t, ok)
	require.Equal(t, "a", holder)
	_, ok = b.Victim()
	require.False(t, ok, "each is asked once until it rests again")
}

func TestPartOfStateIsGivenBack(t *testing.T) {
	b := New[string](Options{Max: 10})
	a := b.OpenOn(nil, "a")
	reserve(t, a, 8)
	require.NoError(t, a.Charge(1))
	a.Return(3)
	require.EqualValues(t, 6, b.Used())
	a.Return(100)
	require.EqualValues(t, 1, b.Used(), "text stays")
	a.Release()
	a.Close()
	a.Return(1)
	require.Zero(t, b.Used())
}

func TestFreedMemoryWakesWaitingRequests(t *testing.T) {
	returned := func(a *Account[string]) { a.Return(10) }
	for name, giveBack := range map[string]func(a *Account[string]){
		"return":  returned,
		"release": (*Account[string]).Release, "close": (*Account[string]).Close,
		"rest": (*Account[string]).Rest,
	} {
		b := New[string](Options{Max: 10})
		a, other := b.OpenOn(nil, "a"), b.OpenOn(nil, "b")
		reserve(t, a, 10)
		want, err := other.Reserve(5)
		require.NoError(t, err)
		giveBack(a)
		<-want.Changed
		want, err = other.Reserve(5)
		require.NoError(t, err)
		require.Equal(t, name == "rest", want.Asked, name)
	}
}

func TestBudgetThatKeepsItsStatesIsFull(t *testing.T) {
	b := New[string](Options{Max: 10, Keeps: true})
	a, other := b.OpenOn(nil, "a"), b.OpenOn(nil, "b")
	reserve(t, a, 10)
	a.Rest()
	_, err := other.Reserve(1)
	require.EqualError(t, err, "10 of 10 bytes of memory are in use")
	require.ErrorAs(t, err, new(*FullError))
	require.Error(t, b.Check(1))
	require.NoError(t, b.Check(0))
	_, err = other.Reserve(11)
	require.EqualError(t, err,
		"the state needs 11 bytes, but the budget for all states is 10 bytes")
}

func TestClosedAccountTakesNothingAndGivesBackOnce(t *testing.T) {
	b := New[string](Options{Max: 20})
	a := b.OpenOn(nil, "a")
	reserve(t, a, 10)
	require.NoError(t, a.Charge(5))
	require.Equal(t, int64(15), a.Bytes())
	require.Equal(t, []int64{0, 15}, b.BytesOf([]*Account[string]{b.OpenOn(nil, "b"), a}))
	a.Release()
	require.Equal(t, int64(5), a.Bytes(), "the text stays")
	a.Close()
	a.Close()
	a.Refund(5)
	a.Release()
	a.Rest()
	require.Zero(t, b.Used())
	require.ErrorIs(t, a.Charge(1), ErrClosed)
	require.ErrorIs(t, a.Charge(0), ErrClosed)
	_, err := a.Reserve(1)
	require.ErrorIs(t, err, ErrClosed)
	_, ok := b.Victim()
	require.False(t, ok)
}

// Holders lock their states, work, and ask each other for memory, as sessions do. With any
// interleaving of these steps, every holder finishes and every byte is released.
func TestBudgetServesAllHoldersInTurn(t *testing.T) {
	type holder struct {
		account *Account[*holder]
		state   chan struct{} // a lock: full while the state is in use
		hot     bool
	}
	rapid.Check(t, func(t *rapid.T) {
		b := New[*holder](Options{Max: 3})
		holders := make([]*holder, rapid.IntRange(1, 8).Draw(t, "holders"))
		for i := range holders {
			holders[i] = &holder{state: make(chan struct{}, 1)}
			holders[i].account = b.OpenOn(nil, holders[i])
		}
		evict := func(h *holder) {
			select {
			case h.state <- struct{}{}:
			default:
				return
			}
			h.hot = false
			h.account.Release()
			<-h.state
			h.account.Rest()
		}
		work := func(h *holder) error {
			h.state <- struct{}{}
			h.account.Work()
			defer func() { <-h.state; h.account.Rest() }()
			for !h.hot {
				want, err := h.account.Reserve(1)
				switch {
				case err != nil:
					return err
				case want.Asked:
					evict(want.Victim)
				case want.Changed != nil:
					<-want.Changed
				default:
					h.hot = true
				}
			}
			return nil
		}
		errs := make(chan error, 1000)
		var wait sync.WaitGroup
		for range rapid.IntRange(1, 6).Draw(t, "clients") {
			turns := rapid.SliceOfN(rapid.IntRange(0, len(holders)-1), 1, 20).Draw(t, "turns")
			wait.Go(func() {
				for _, i := range turns {
					errs <- work(holders[i])
				}
			})
		}
		wait.Wait()
		close(errs)
		for err := range errs {
			require.NoError(t, err)
		}
		require.LessOrEqual(t, b.Used(), int64(3))
		for _, h := range holders {
			h.account.Close()
		}
		require.Zero(t, b.Used())
	})
}

func TestWaitAsksForAStateAndElseWaits(t *testing.T) {
	b := New[string](Options{Max: 10})
	a, other := b.OpenOn(nil, "a"), b.OpenOn(nil, "other")
	b.GiveUp = func(holder string) {
		require.Equal(t, "a", holder)
		a.Release()
	}
	reserve(t, a, 10)
	a.Rest()
	require.NoError(t, other.Wait(t.Context(), 5), "a gives its state up")
	changed, err := a.Try(10)
	require.NoError(t, err)
	require.NotNil(t, changed, "other is at work")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, a.Wait(ended, 10), context.Canceled)
	other.Release()
	<-changed
	require.NoError(t, a.Wait(ended, 10), "nobody has to be waited for")
	_, err = other.Try(11)
	require.ErrorAs(t, err, new(*FullError))
}
