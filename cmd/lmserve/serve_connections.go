package main

import (
	"runtime"
)

const (
	connectionsMost    = 16384 // the default of --max-connections where descriptors abound
	descriptorsKept    = 32    // for what is no connection: the database, the log, keys, certificates
	descriptorsUnknown = 1024  // where the system does not say
)

// connections is the limit on connections. Of the descriptors that are left, every connection may
// need a second one: its request may read or write a file of the data folder.
func (f *serveFlags) connections() (int, error) {
	most := max(1, (descriptorsMax()-descriptorsKept)/2)
	if f.maxConnections == 0 {
		return min(most, connectionsMost), nil
	}
	if f.maxConnections < 0 || f.maxConnections > most {
		return 0, usagef("--max-connections is %d, expected 1 to %d, "+
			"as this process may have %d descriptors open (ulimit -n)", f.maxConnections, most, descriptorsMax())
	}
	return f.maxConnections, nil
}

// besideComputing lets Go run one thread more than those that compute. Else connections and the disk
// wait until one of these rests, which is after a chunk, or after the 10 ms that Go leaves it; the
// system takes turns within less.
func besideComputing(threads int) {
	if runtime.GOMAXPROCS(0) <= threads {
		runtime.GOMAXPROCS(threads + 1)
	}
}
