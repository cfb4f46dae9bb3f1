package sessionlog

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"go.etcd.io/bbolt"
)

// crossChecker compares the buckets with each other: whatever a session refers to is there, and
// whatever is there is what a session refers to.
type crossChecker struct {
	*checker
	log *bbolt.Bucket

	kept   map[string][]Snapshot // by session
	shared map[share]bool        // what the entries say
	needed map[string][]extent   // by the id that records stand under
	// unsure says that an entry is damaged, so that nobody knows what all sessions refer to.
	unsure bool
}

func (c *crossChecker) check(tx *bbolt.Tx) {
	c.log = tx.Bucket([]byte(logBucket))
	if !c.hasEpoch {
		c.found(-1, "", -1, "the last epoch given out: missing")
	}
	c.collect()
	for _, id := range slices.Sorted(maps.Keys(c.sessions)) {
		if e := c.sessions[id]; e != nil {
			c.session(id, e)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.logs)) {
		c.unneeded(id)
	}
	c.compareShares()
	c.indexEntries()
}

// collect finds out what the sessions refer to.
func (c *crossChecker) collect() {
	c.kept, c.shared, c.needed = map[string][]Snapshot{}, map[share]bool{}, map[string][]extent{}
	for _, s := range c.snapshots {
		c.kept[s.id] = append(c.kept[s.id], s.Snapshot)
	}
	for id, e := range c.sessions {
		if e == nil {
			c.unsure = true
			continue
		}
		for _, row := range e.shares(id, c.kept[id]) {
			c.shared[row] = true
		}
		for _, p := range e.parts(id) {
			c.needed[p.owner] = append(c.needed[p.owner], p.extent)
		}
	}
	for id, extents := range c.needed {
		c.needed[id] = union(extents)
	}
}

// session checks that a session's log is there.
func (c *crossChecker) session(id string, e *entry) {
	if c.hasEpoch && (e.epoch < 1 || e.epoch > c.epoch) {
		c.found(-1, id, -1, "session: epoch %d, expected 1 to %d, the last given out", e.epoch, c.epoch)
	}
	parts := e.parts(id)
	for _, p := range parts[:len(e.pieces)] {
		missing := []extent{p.extent}
		for _, r := range c.logs[p.owner] {
			missing = without(missing, r.known())
		}
		for _, m := range missing {
			c.found(-1, id, m.from, "records under the id of session %s: none from here to offset %d", p.owner, m.to)
		}
		for _, at := range []int64{p.from, p.to} {
			if !c.isBorder(p.owner, at) {
				c.found(-1, id, at, "a record of session %s lies across this offset, expected one to end", p.owner)
			}
		}
	}
	end := e.own()
	for n, r := range c.ownRuns(id, e) {
		switch {
		case n == 0 && r.from != end, n == 0 && !c.isBorder(id, end):
			c.found(r.at, id, r.from, "the log's first record, expected it at offset %d", end)
		case n > 0:
			c.found(r.at, id, r.from, "record follows one that ends at offset %d", end)
		}
		end = r.to
	}
}

// known is what a run is taken to cover: to no end, where that is not known.
func (r *run) known() extent {
	if r.to < 0 {
		return extent{r.from, math.MaxInt64}
	}
	return r.extent
}

// ownRuns gives what stands under a session's id, and is not what it has left to forks.
func (c *crossChecker) ownRuns(id string, e *entry) (own []run) {
	for _, r := range c.logs[id] {
		if r.to >= 0 && r.to <= e.own() {
			continue
		}
		r.from = max(r.from, e.own())
		own = append(own, r)
	}
	return own
}

// isBorder tells whether no record under an id lies across an offset.
func (c *crossChecker) isBorder(id string, at int64) bool {
	for _, r := range c.logs[id] {
		if known := r.known(); at > known.from && at < known.to {
			return c.log.Get(offsetKey(id, at)) != nil
		}
	}
	return true
}

// unneeded finds the records under an id that no session refers to: leftovers.
func (c *crossChecker) unneeded(id string) {
	if c.unsure {
		return
	}
	e, there := c.sessions[id]
	for _, r := range c.logs[id] {
		left := []extent{r.known()}
		for _, s := range c.needed[id] {
			left = without(left, s)
		}
		for _, s := range left {
			what := fmt.Sprintf("records that no session refers to any more, from here to offset %d", s.to)
			switch {
			case there:
				what = fmt.Sprintf("the log's first record, expected it at offset %d: "+
					"nobody refers to those before", e.own())
			case len(c.needed[id]) == 0:
				what = "records of a session that is not there"
			}
			c.visit(&CorruptError{
				File: databaseName, Byte: -1, Session: id, Offset: s.from, Stray: true,
				What: what + "; a deletion that was interrupted has left them, " +
					"and they are removed when the folder is opened for writing",
			})
		}
	}
}

// compareShares compares the rows with what they follow from.
func (c *crossChecker) compareShares() {
	for _, row := range sortedShares(c.shared) {
		if !c.shares[row] {
			c.found(-1, row.child, row.from, "it shares with session %s up to offset %d, and there is no row of that",
				row.owner, row.to)
		}
	}
	for _, row := range sortedShares(c.shares) {
		if e, there := c.sessions[row.child]; !c.shared[row] && (e != nil || !there) {
			c.found(-1, row.child, row.from, "row of a share with session %s up to offset %d, and the session has none",
				row.owner, row.to)
		}
	}
}

func sortedShares(all map[share]bool) []share {
	return slices.SortedFunc(maps.Keys(all), func(a, b share) int {
		return strings.Compare(string(a.key()), string(b.key()))
	})
}

// indexEntries checks that snapshots are of sessions, and of their logs.
func (c *crossChecker) indexEntries() {
	count := map[string]int{}
	for _, s := range c.snapshots {
		e, ok := c.sessions[s.id]
		switch {
		case !ok:
			c.found(-1, s.id, s.Offset, "snapshot of a session that is not there")
			continue
		case e == nil:
			continue
		}
		end := e.own()
		if runs := c.ownRuns(s.id, e); len(runs) > 0 {
			end = runs[len(runs)-1].to
		}
		if end >= 0 && s.Offset > end {
			c.found(-1, s.id, s.Offset, "snapshot, expected none after offset %d, the end of the log", end)
		}
		if count[s.id]++; count[s.id] == SnapshotsMax+1 {
			c.found(-1, s.id, s.Offset, "snapshot, expected at most %d", SnapshotsMax)
		}
	}
}
