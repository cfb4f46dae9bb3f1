package main

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"go.uber.org/zap"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/session"
	"github.com/lmserve/lmserve/server/limits"
)

const (
	// memoryConstant is what a server may take beside its budget, its model, its workers and its
	// connections: what requests have in memory whole, and 64 MiB for the program, the writing of
	// the database, and what the collector has not found yet.
	memoryConstant = limits.MemoryMax + 64<<20
	// memoryUnit is what the sum of all is rounded up to, so that a start gives the number of the
	// one before.
	memoryUnit = 16 << 20
	// connectionBytes is the memory of a connection and of the request on it: buffers, stacks, TLS.
	connectionBytes = 64 << 10
)

// memoryHelp says what --memory-budget is a part of.
var memoryHelp = fmt.Sprintf(`The weights of all models but the first are a part of it.
In all, the process takes the budget, the first model, %dM, %dK for each connection, and for each
thread a worker of each model (as large as its chunks, 327M at most with the embedded model)
and %dM for files. Its log says how much that is. The collector is told to keep to it, unless GOMEMLIMIT
is set. See "Memory" in docs/operations.md.`,
	memoryConstant>>20, connectionBytes>>10, session.FileBytes>>20)

// checkBudget refuses a budget that no session of one of the models would fit into.
func (f *serveFlags) checkBudget(models servedModels) error {
	err := f.checkBudgetOf(models.first, 0)
	for _, other := range models.others {
		err = cmp.Or(err, f.checkBudgetOf(other.Outline, other.Bytes))
	}
	return err
}

// checkBudgetOf is checkBudget for a model whose weights take so much of the budget.
func (f *serveFlags) checkBudgetOf(m *model.Model, weights int64) error {
	least, err := session.MemoryMin(m)
	least += weights
	if err != nil || f.budget == 0 || int64(f.budget) >= least {
		return err
	}
	const unit = 1 << 20
	least = (least + unit - 1) / unit * unit
	beside := orWord(", beside its weights", weights == 0, "")
	return usagef("--memory-budget is %s, expected at least %s: so much memory the "+
		"state of one session of model %s needs, and what a completion copies of it%s",
		&f.budget, sizeOf(least), m.ID(), beside)
}

// memoryMost is the memory that the process may take in all. It is asked when the first model is
// loaded, and nothing else is: the weights of the others are a part of the budget. Each thread may
// have a worker of each.
func (f *serveFlags) memoryMost(models servedModels, connections int) int64 {
	budget := int64(f.budget)
	if budget == 0 {
		budget = session.DefaultMemoryBytes()
	}
	runtime.GC()
	var loaded runtime.MemStats
	runtime.ReadMemStats(&loaded)
	thread := int64(session.FileBytes)
	for _, m := range models.known() {
		thread += stream.WorkerBytes(m)
	}
	threads := int64(f.model.threads) * thread
	most := budget + int64(loaded.HeapAlloc) + threads + memoryConstant +
		int64(connections)*connectionBytes
	return (most + memoryUnit - 1) / memoryUnit * memoryUnit
}

// limitMemory makes the collector work harder where the process comes near to what it may take.
func limitMemory(most int64, log *zap.Logger) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(most)
	}
	log.Info("memory", zap.Int64("most_bytes", most))
}

const (
	connectionsMost = 16384 // the default of --max-connections where descriptors abound
	// for what is no connection: the database, the log, keys, certificates
	descriptorsKept    = 32
	descriptorsUnknown = 1024 // where the system does not say
)

// connections is the limit on connections. Of the descriptors that are left, every connection may
// need a second one: its request may read or write a file of the data folder.
func (f *serveFlags) connections() (int, error) {
	most := max(1, (descriptorsMax()-descriptorsKept)/2)
	if f.maxConnections == 0 {
		return min(most, connectionsMost), nil
	}
	if f.maxConnections < 0 || f.maxConnections > most {
		return 0, usagef("--max-connections is %d, expected 1 to %d, as this process may have %d "+
			"descriptors open (ulimit -n)", f.maxConnections, most, descriptorsMax())
	}
	return f.maxConnections, nil
}

// besideComputing lets Go run one thread more than those that compute. Else connections and the
// disk wait until one of these rests, which is after a chunk, or after the 10 ms that Go leaves it;
// the system takes turns within less.
func besideComputing(threads int) {
	if runtime.GOMAXPROCS(0) <= threads {
		runtime.GOMAXPROCS(threads + 1)
	}
}
