package budget

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The budget counts a shared base once. The base stays in memory after its last state is released.
func TestBaseIsPaidOnceAndStaysUntilMemoryIsNeeded(t *testing.T) {
	b := New[string](Options{Max: 30})
	drops := 0
	base := b.NewBase(10, func() { drops++ })
	first, second, other := b.OpenOn(base, "first"), b.OpenOn(base, "second"),
		b.OpenOn(nil, "other")
	reserve(t, first, 5)
	reserve(t, second, 5)
	require.EqualValues(t, 20, b.Used())
	require.Equal(t, 2, base.Users())
	first.Release()
	second.Release()
	require.EqualValues(t, 10, b.Used(), "nobody wants it yet")
	reserve(t, other, 20)
	require.Zero(t, drops)
	other.Release()
	reserve(t, other, 21)
	require.Equal(t, 1, drops)
	require.EqualValues(t, 21, b.Used())
	other.Close()
	reserve(t, first, 20)
	require.EqualValues(t, 30, b.Used(), "it is paid for again")
	var full *FullError
	require.ErrorAs(t, second.Fits(21), &full)
	require.NoError(t, other.Fits(30))
}

// A base in use is not dropped. Unused bases and idle states are dropped in the order of their last
// use.
func TestBaseGoesInItsTurn(t *testing.T) {
	b := New[string](Options{Max: 30})
	drops := 0
	base := b.NewBase(10, func() { drops++ })
	old, on, late := b.OpenOn(nil, "old"), b.OpenOn(base, "on"), b.OpenOn(nil, "late")
	reserve(t, old, 10)
	reserve(t, on, 10)
	want, err := late.Reserve(1)
	require.NoError(t, err)
	require.False(t, want.Asked, "all are at work")
	old.Rest()
	on.Release()
	want, err = late.Reserve(11)
	require.NoError(t, err)
	require.Equal(t, "old", want.Victim, "its state was used before the base")
	require.Zero(t, drops)
	reserve(t, late, 11)
	require.Equal(t, 1, drops)
}

func TestBaseMakesRoomWhereStatesStay(t *testing.T) {
	b := New[string](Options{Max: 30, Keeps: true})
	base := b.NewBase(10, func() {})
	stays, on := b.OpenOn(nil, "stays"), b.OpenOn(base, "on")
	reserve(t, stays, 10)
	stays.Rest()
	reserve(t, on, 10)
	require.Error(t, stays.Charge(1))
	on.Close()
	require.NoError(t, stays.Charge(15))
	require.EqualValues(t, 25, b.Used())
}

// The used bytes of the budget always equal the sum over its accounts and bases, and stay within
// the limit.
func TestBasesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 40
		b := New[string](Options{Max: most})
		held := map[*Base]bool{}
		var bases []*Base
		for range 3 {
			var base *Base
			base = b.NewBase(10, func() { held[base] = false })
			bases = append(bases, base)
		}
		type user struct {
			*Account[string]
			base *Base
		}
		var all []user
		for i := range 6 {
			base := bases[i%len(bases)]
			all = append(all, user{b.OpenOn(base, "x"), base})
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			u := rapid.SampledFrom(all).Draw(t, "account")
			switch rapid.IntRange(0, 3).Draw(t, "do") {
			case 0:
				u.Work()
				if want, err := u.Reserve(7); err == nil && !want.Asked && want.Changed == nil {
					held[u.base] = true
				}
			case 1:
				u.Rest()
			case 2:
				u.Release()
			case 3:
				u.Return(3)
			}
			sum := int64(0)
			users := map[*Base]int{}
			for _, other := range all {
				if sum += other.Bytes(); other.Bytes() > 0 {
					users[other.base]++
				}
			}
			for _, base := range bases {
				if held[base] {
					sum += 10
				}
				require.Equal(t, users[base], base.Users())
				require.True(t, held[base] || base.Users() == 0,
					"it is not dropped under its users")
			}
			require.Equal(t, sum, b.Used())
			require.LessOrEqual(t, sum, int64(most))
		}
	})
}
