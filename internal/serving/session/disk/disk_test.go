package disk

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func plenty() Space { return Space{Left: 1 << 40, All: 1 << 41} }

// session is part of a simple model of the Guard. The test compares the Guard with this model.
type session struct {
	owner       string
	bytes, held int64
}

func TestAnySequenceOfCallsAddsUpAsAMapDoes(t *testing.T) {
	const limit = 1000
	rapid.Check(t, func(t *rapid.T) {
		g, all, serial := New(Options{Space: plenty}), map[string]*session{}, 0
		owners := rapid.SampledFrom([]string{"", "a", "b"})
		used := func(owner string) (n int64) {
			for _, s := range all {
				if s.owner == owner {
					n += max(s.bytes, s.held)
				}
			}
			return n
		}
		fresh := func() string {
			serial++
			return fmt.Sprint(serial)
		}
		pick := func() (string, *session) {
			if len(all) == 0 {
				t.Skip("there is none")
			}
			id := rapid.SampledFrom(slices.Sorted(maps.Keys(all))).Draw(t, "session")
			return id, all[id]
		}
		bytes := rapid.Int64Range(1, 400)
		for _, owner := range []string{"", "a", "b"} {
			g.Limit(owner, limit)
		}
		t.Repeat(map[string]func(*rapid.T){
			"open": func(t *rapid.T) {
				id, owner := fresh(), owners.Draw(t, "owner")
				g.Open(id, owner)
				all[id] = &session{owner: owner}
			},
			"reserve": func(t *rapid.T) {
				id, owner, n := fresh(), owners.Draw(t, "owner"), bytes.Draw(t, "bytes")
				before := used(owner)
				err := g.Reserve(id, owner, n)
				if before+n > limit {
					require.Equal(t, &LimitError{Used: before, Limit: limit}, err)
					return
				}
				require.NoError(t, err)
				all[id] = &session{owner: owner, held: n}
			},
			"made": func(t *rapid.T) {
				id, s := pick()
				g.Made(id)
				if s.held = 0; s.bytes == 0 {
					delete(all, id)
				}
			},
			"charge": func(t *rapid.T) {
				id, s := pick()
				s.bytes = bytes.Draw(t, "bytes")
				g.Charge(id, s.bytes)
			},
			"gone": func(t *rapid.T) {
				id, s := pick()
				g.Charge(id, 0)
				if s.bytes = 0; s.held == 0 {
					delete(all, id)
				}
			},
			"unknown": func(*rapid.T) { g.Charge("nobody's", 77) },
			"": func(t *rapid.T) {
				for _, owner := range []string{"", "a", "b"} {
					require.Equal(t, used(owner), g.Used(owner))
					require.Equal(t, used(owner)+100 > limit, g.Room(owner, 100) != nil)
				}
				for id, s := range all {
					require.Equal(t, s.bytes, g.Charged(id))
				}
				require.Len(t, g.mu.sessions, len(all))
			},
		})
	})
}

func TestAlarmBeginsBelowReserveAndEndsAtTwiceThat(t *testing.T) {
	const all = 1 << 40
	left, told := int64(all), []error(nil)
	g := New(Options{
		Space: func() Space { return Space{Left: left, All: all} },
		Told:  func(why error) { told = append(told, why) },
	})
	for _, c := range []struct {
		left  int64
		alarm bool
		told  int
	}{
		{ReserveMost, false, 0},
		{ReserveMost - 1, true, 1},
		{0, true, 1},
		{2*ReserveMost - 1, true, 1},
		{2 * ReserveMost, false, 2},
		{ReserveMost, false, 2},
		{ReserveMost - 1, true, 3},
	} {
		left = c.left
		err := g.Room("anybody", 1)
		require.Equal(t, c.alarm, err != nil, c.left)
		require.Equal(t, c.alarm, g.Alarm() != nil)
		var alarm *AlarmError
		require.Equal(t, c.alarm, errors.As(err, &alarm))
		require.Len(t, told, c.told, c.left)
		if c.told > 0 {
			require.Equal(t, c.alarm, told[c.told-1] != nil)
		}
	}
}

// A small disk or budget has a smaller reserve than a large one.
func TestBudgetIsWatchedLikeFileSystem(t *testing.T) {
	used := int64(0)
	g := New(Options{Budget: 1000, Space: func() Space {
		return Space{Used: used, Left: 1 << 40,
			All: 1 << 41}
	}})
	used = 950
	require.NoError(t, g.Alarm())
	require.NoError(t, g.Fits(25))
	require.ErrorContains(t, g.Fits(26), "50 of the 1000 bytes of the disk budget are free")
	require.NoError(t, g.Alarm(), "what is too large for the rest is no alarm")
	used = 951
	require.Error(t, g.Alarm())
	used = 901
	require.Error(t, g.Alarm())
	used = 900
	require.NoError(t, g.Alarm())
	used = 1 << 40
	require.ErrorContains(t, g.Alarm(), "0 of the 1000 bytes")
}

func TestGuardWithoutDiskRefusesNothing(t *testing.T) {
	g := New(Options{Budget: 1})
	g.Limit("a", 1)
	require.NoError(t, g.Reserve("x", "a", 1<<40))
	require.NoError(t, g.Room("a", 1<<40))
	require.NoError(t, g.Alarm())
	unknown := New(Options{Space: func() Space { return Space{} }})
	require.NoError(t, unknown.Room("a", 1<<40))
}

func TestAmpleLeavesHalfOfEachLimit(t *testing.T) {
	space := Space{Used: 10, Left: 100, All: 1000}
	g := New(Options{Budget: 60, Space: func() Space { return space }})
	g.Limit("a", 40)
	require.NoError(t, g.Reserve("x", "a", 5))
	require.True(t, g.Ample("a", 15))
	require.False(t, g.Ample("a", 16), "more than half of the limit")
	require.True(t, g.Ample("b", 20), "no limit")
	require.False(t, g.Ample("b", 21), "more than half of the budget")
	g.alarm.Budget = 0
	require.True(t, g.Ample("b", 90))
	require.False(t, g.Ample("b", 91), "more than half of what the folder may come to take")
	require.True(t, New(Options{}).Ample("a", 1<<40))
}
