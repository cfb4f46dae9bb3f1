package sparsemeta

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Tables are the tables of a learner, indexed [bank][branch]. Any number of states may use the
// tables at once while nothing changes them.
type Tables [][]*Table

// Compile returns the learner's tables, computed on all processors.
func (l *Learner) Compile() Tables {
	tables := make(Tables, len(l.Phi))
	for bank := range tables {
		tables[bank] = make([]*Table, len(l.Phi[bank]))
	}
	branches := len(l.Branches)
	total := len(l.Phi) * branches
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(total, runtime.GOMAXPROCS(0)) {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < total; i = int(next.Add(1)) - 1 {
				bank, branch := i/branches, i%branches
				tables[bank][branch] = Compile(&l.Phi[bank][branch])
			}
		})
	}
	wait.Wait()
	return tables
}
