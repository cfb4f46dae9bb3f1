package budget

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestExtrasGoFirstTheLeastUsedBeforeOthers(t *testing.T) {
	b := New[string](Options{Max: 40})
	base := b.NewBase(10, func() { t.Error("the base goes after the extras") })
	on := b.OpenOn(base, "on")
	reserve(t, on, 10)
	on.Release()
	var dropped []string
	keep := func(name string, bytes int64) *Extra {
		return b.Keep(bytes, func() { dropped = append(dropped, name) })
	}
	first := keep("first", 4)
	require.NotNil(t, keep("second", 4))
	first.Use()
	require.NotNil(t, keep("third", 4), "a quarter of the budget is for extras")
	require.Equal(t, []string{"second"}, dropped)
	require.EqualValues(t, 18, b.Used())
	require.Nil(t, keep("large", 11))
	state := b.OpenOn(nil, "state")
	reserve(t, state, 24)
	require.Equal(t, []string{"second", "first"}, dropped)
	require.EqualValues(t, 38, b.Used())
	require.Nil(t, keep("late", 8), "neither state nor base makes room for it")
	require.Equal(t, []string{"second", "first"}, dropped)
	first.Use()
	require.NotNil(t, keep("small", 6), "another extra does")
	require.Equal(t, []string{"second", "first", "third"}, dropped)
}

func TestExtrasStayWithinTheBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 40
		b := New[string](Options{Max: most})
		state, kept := b.OpenOn(nil, "state"), int64(0)
		held := map[*Extra]int64{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			bytes := rapid.Int64Range(1, 15).Draw(t, "bytes")
			switch rapid.IntRange(0, 3).Draw(t, "do") {
			case 0:
				var e *Extra
				e = b.Keep(bytes, func() { kept -= bytes; delete(held, e) })
				if e != nil {
					kept += bytes
					held[e] = bytes
				}
			case 1:
				if _, err := state.Reserve(bytes); err != nil {
					t.Fatal(err)
				}
			case 2:
				state.Return(bytes)
			case 3:
				for e, bytes := range held {
					e.Release()
					e.Release()
					kept -= bytes
					delete(held, e)
					break
				}
			}
			require.Equal(t, state.Bytes()+kept, b.Used())
			require.LessOrEqual(t, kept, int64(most/extraShare))
			require.LessOrEqual(t, b.Used(), int64(most))
		}
	})
}
