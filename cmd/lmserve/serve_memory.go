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
	// memoryConstant is the memory in bytes that a server needs beside the budget, the model,
	// workers and connections. limits.MemoryMax covers request data that must be in memory as a
	// whole. 64 MiB cover the program, database writes and garbage that is not yet collected.
	memoryConstant = limits.MemoryMax + 64<<20
	// memoryUnit is the granularity of the process's memory limit, in bytes. Rounding up to this
	// unit hides small differences, so every start of a server logs the same limit.
	memoryUnit = 16 << 20
	// connectionBytes is the memory of a connection and its request in bytes: buffers, stacks, TLS.
	connectionBytes = 64 << 10
)

var memoryHelp = fmt.Sprintf(`--memory-budget limits the states of sessions and the weights of all
models but the first. In addition, the process needs the first model's weights, %dM, %dK
for each connection and, for each thread, a worker of each model (at most 327M with the
embedded model) and %dM for files. The log shows the sum, which is the limit of Go's
garbage collector unless GOMEMLIMIT is set. See "Memory" in docs/operations.md.`,
	memoryConstant>>20, connectionBytes>>10, session.FileBytes>>20)

func (f *serveFlags) checkBudget(models servedModels) error {
	err := f.checkBudgetOf(models.first, 0)
	for _, other := range models.others {
		err = cmp.Or(err, f.checkBudgetOf(other.Outline, other.Bytes))
	}
	return err
}

// checkBudgetOf returns an error if the budget is too small for one session of a model. The
// parameter weights is the number of bytes that the model's weights take from the budget.
func (f *serveFlags) checkBudgetOf(m *model.Model, weights int64) error {
	least, err := session.MemoryMin(m)
	least += weights
	if err != nil || f.budget == 0 || int64(f.budget) >= least {
		return err
	}
	const unit = 1 << 20
	least = (least + unit - 1) / unit * unit
	beside := orWord(", beside its weights", weights == 0, "")
	return usagef("--memory-budget is %s, expected at least %s, the memory for the state of one "+
		"session of model %s and the copy that a completion makes%s",
		&f.budget, sizeOf(least), m.ID(), beside)
}

// memoryMost returns the maximum memory of the process in bytes. It adds the budget to the current
// size of the heap. Only the first model may be loaded at this time, because the budget includes
// the weights of all other models. Each thread may have one worker per model.
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

func limitMemory(most int64, log *zap.Logger) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(most)
	}
	log.Info("memory", zap.Int64("most_bytes", most))
}

const (
	// the default of --max-connections if enough file descriptors are available
	connectionsMost = 16384
	// descriptorsKept is the number of file descriptors reserved for the database, the log, keys
	// and certificates.
	descriptorsKept = 32
	// the number of file descriptors assumed on systems that report no limit
	descriptorsUnknown = 1024
)

// connections returns the maximum number of connections. Each connection may need two file
// descriptors: one for the socket, and one for a file of the data folder that its request uses.
func (f *serveFlags) connections() (int, error) {
	most := max(1, (descriptorsMax()-descriptorsKept)/2)
	if f.maxConnections == 0 {
		return min(most, connectionsMost), nil
	}
	if f.maxConnections < 0 || f.maxConnections > most {
		return 0, usagef("--max-connections is %d, expected 1 to %d: the process may open %d "+
			"file descriptors (ulimit -n)", f.maxConnections, most, descriptorsMax())
	}
	return f.maxConnections, nil
}

// besideComputing raises GOMAXPROCS above the number of computing threads. Otherwise, connections
// and the disk would wait until a computing thread pauses: after a chunk, or after Go's 10 ms time
// slice. The operating system switches threads sooner.
func besideComputing(threads int) {
	if runtime.GOMAXPROCS(0) <= threads {
		runtime.GOMAXPROCS(threads + 1)
	}
}
