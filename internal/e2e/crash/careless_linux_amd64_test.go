package crash

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/internal/powercut"
)

// forgotten reports whether event n is a sync that a faulty server omits. The function `is` reports
// whether a pattern matches the name of the synced file or folder.
type forgotten func(events []powercut.Event, n int, is func(name string) bool) bool

// careless lists faulty servers by the syncs that they omit. Simulated power cuts must detect every
// faulty server.
var careless = map[string]forgotten{
	"logs are not synced, one time in four": func(
		events []powercut.Event, n int, is func(string) bool,
	) bool {
		return events[n].Kind == powercut.Sync && is("data/sessions/*/log.*") && n%4 == 0
	},
	"erased files are not synced": func(events []powercut.Event, n int, is func(string) bool) bool {
		return events[n].Kind == powercut.Sync && zeros(before(events, n))
	},
	"heads are not synced": func(events []powercut.Event, n int, is func(string) bool) bool {
		return events[n].Kind == powercut.Sync && is("data/making/*/head")
	},
	"snapshots are not synced": func(events []powercut.Event, n int, is func(string) bool) bool {
		return events[n].Kind == powercut.Sync && is("data/sessions/*/state.*")
	},
	"the folder of sessions is not synced": func(
		events []powercut.Event, n int, is func(string) bool,
	) bool {
		return events[n].Kind == powercut.SyncDir && is("data/sessions")
	},
	"folders of sessions are not synced": func(
		events []powercut.Event, n int, is func(string) bool,
	) bool {
		return events[n].Kind == powercut.SyncDir && is("data/sessions/*")
	},
}

func before(events []powercut.Event, n int) powercut.Event {
	for k := n - 1; k >= 0; k-- {
		if events[k].Kind == powercut.Write && events[k].Node == events[n].Node {
			return events[k]
		}
	}
	return powercut.Event{}
}

func zeros(e powercut.Event) bool {
	return len(e.Data) > 0 && len(bytes.Trim(e.Data, "\x00")) == 0
}

// gap is the range of events between an omitted sync and the next sync of the file or folder.
// Without a next sync, the gap ends with the recording.
type gap struct{ from, to int }

// without returns a copy of the recording that omits the syncs chosen by left. It also returns the
// resulting gaps.
func (r *recorded) without(name string, left forgotten) (other *recorded, gaps []gap) {
	names := map[int][]string{}
	for _, e := range r.events {
		if e.Kind == powercut.Name {
			names[e.Node] = append(names[e.Node], e.Name)
		}
	}
	other = &recorded{name: name, claims: r.claims, begin: r.begin}
	other.events = slices.Clone(r.events)
	type synced struct {
		node   int
		folder string
	}
	next := map[synced]int{}
	for n, e := range slices.Backward(r.events) {
		if e.Kind != powercut.Sync && e.Kind != powercut.SyncDir {
			continue
		}
		is := func(pattern string) bool {
			return slices.ContainsFunc(append(names[e.Node], e.Name), func(name string) bool {
				matched, _ := filepath.Match(pattern, name)
				return matched
			})
		}
		of := synced{e.Node, e.Name}
		if !left(r.events, n, is) {
			next[of] = n
			continue
		}
		other.events[n].Kind = powercut.Nothing
		to, again := next[of]
		if !again {
			to = len(r.events)
		}
		gaps = append(gaps, gap{n + 1, to})
	}
	return other, gaps
}

// telling returns the moments at which a power cut most likely reveals a missing sync, at most
// `most` of them. The first moments are those at which a client got the confirmation of a deletion.
// The ends of gaps follow: first gaps with such a confirmation, then gaps with any other answer,
// then the rest.
func (c *crash) telling(r *recorded, gaps []gap, most int) (moments []int) {
	rank := map[int]int{}
	for _, g := range gaps {
		if g.to <= r.begin {
			continue
		}
		rank[g.to] += 0
		for _, x := range r.claims {
			switch {
			case x.at < g.from || x.at > g.to:
			case x.deleted:
				rank[g.to], rank[x.at] = 2, 3
			default:
				rank[g.to] = max(rank[g.to], 1)
			}
		}
	}
	moments = slices.Sorted(maps.Keys(rank))
	c.rand.Shuffle(len(moments), func(i, k int) { moments[i], moments[k] = moments[k], moments[i] })
	slices.SortStableFunc(moments, func(a, b int) int { return rank[b] - rank[a] })
	return moments[:min(most, len(moments))]
}

// findsOut checks that simulated power cuts detect a server that omits the syncs chosen by left.
// The surviving writes are random, and only some cuts reveal a missing sync. So findsOut draws up
// to 10 times, until a cut reveals it.
func (c *crash) findsOut(life *recorded, name string, left forgotten) {
	const cutsMost, draws = 40, 10
	other, gaps := life.without(name, left)
	require.NotEmpty(c.t, gaps, name)
	var err error
	for n := 0; n < draws && err == nil; n++ {
		err = c.cuts(other, c.telling(other, gaps, cutsMost))
	}
	require.Error(c.t, err, name)
	c.t.Log(err)
	require.NoError(c.t, os.RemoveAll(filepath.Join(c.folder, "cut")))
}
