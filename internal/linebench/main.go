// Command linebench asks which methods find strange lines in logs. It puts incidents into a log,
// one to three lines of another format, of a known format with another path, user or status, or out
// of time, and compares what each method flags with what was injected. The same seeds make the same
// logs.
//
//	go run ./internal/linebench [-seeds 10] [-threads 2] LOG...
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/lmserve/lmserve"
)

func main() {
	seeds := flag.Int("seeds", 10, "logs with injected lines made of each log")
	threads := flag.Int("threads", 2, "threads that compute")
	list := flag.Bool("list", false, "print the injected lines of each log instead, and score nothing")
	flag.Parse()
	if err := run(flag.Args(), *seeds, *threads, *list); err != nil {
		fmt.Fprintln(os.Stderr, "linebench:", err)
		os.Exit(1)
	}
}

func run(paths []string, seeds, threads int, list bool) error {
	if len(paths) == 0 || seeds < 1 {
		return errors.New("expected files of logs, and 1 seed or more")
	}
	model, err := lmserve.Default(lmserve.Options{Threads: threads})
	if err != nil {
		return err
	}
	defer model.Close()
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		log := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		if list {
			printInjected(path, log, seeds)
			continue
		}
		result, err := compare(model, log, seeds)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		result.print(os.Stdout, filepath.Base(path))
	}
	return nil
}

// printInjected shows what would be injected into a log.
func printInjected(path string, log []string, seeds int) {
	for seed := range seeds {
		for i, l := range inject(log, uint64(seed)) {
			if l.kind != ordinary {
				fmt.Printf("%s seed %d line %d %s: %s\n", filepath.Base(path), seed, i+1, kindNames[l.kind], l.text)
			}
		}
	}
}
