// Command linebench compares methods that find strange lines in logs. It injects incidents of one
// to three strange lines into each log, and compares the lines that a method flags with the
// injected lines. A strange line has the format of another system, or a changed path, user or
// status, or comes at the wrong time. Equal seeds give equal logs.
//
//	go run ./internal/lab/linebench [-seeds 10] [-max-bytes N] LOG...
//
// With -labels DIR, linebench injects nothing and reads labeled logs. Each folder below DIR has a
// log.txt, and a labels.txt with one label for each line; "-" marks an ordinary line. With
// -trouble-words, ratings also use words of trouble, such as "error".
//
// With -calibration, linebench counts the lines with a probability of at most 1/2, 1/5, 1/10 and so
// on. It divides each count by the expected count. With -changes, linebench injects changes of
// frequency and value, and prints which changes were reported.
package main

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	seeds := flag.Int("seeds", 10, "number of logs with injected lines to make from each log")
	labels := flag.String("labels", "", "folder of labeled logs")
	trouble := flag.String("trouble-words", "", "with -labels: file of words of trouble, or "+
		"\"default\"")
	answers := flag.Bool("answers", false, "with -labels: incidents shown to a simulated "+
		"operator who gives verdicts")
	calibration := flag.Bool("calibration", false, "for each probability, count the lines with "+
		"at most this p")
	changes := flag.Bool("changes", false, "inject changes of rates and values into logs")
	maxBytes := flag.Int("max-bytes", math.MaxInt, "maximum bytes read from each file, in "+
		"whole lines")
	flag.Parse()
	paths := flag.Args()
	if (len(paths) == 0) == (*labels == "") || *seeds < 1 {
		flag.Usage()
		os.Exit(2)
	}
	var err error
	switch {
	case *labels != "" && *answers:
		err = printOperated(os.Stdout, *labels)
	case *labels != "":
		err = printLabeled(os.Stdout, *labels, *trouble)
	case *changes:
		err = printChanges(os.Stdout, paths)
	case *calibration:
		err = printCalibration(paths, *maxBytes)
	default:
		err = printComparisons(os.Stdout, paths, *maxBytes, *seeds)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "linebench:", err)
		os.Exit(1)
	}
}

// eachLog calls f with the name and the lines of each file. It reads at most maxBytes of a file, in
// whole lines.
func eachLog(paths []string, maxBytes int, f func(name string, log []string)) error {
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if len(text) > maxBytes {
			text = text[:bytes.LastIndexByte(text[:maxBytes], '\n')+1]
		}
		f(filepath.Base(path), split(string(text)))
	}
	return nil
}

// checkLength returns an error if a log has too few lines: only lines after the first `old` lines
// are evaluated.
func checkLength(path string, log []string) error {
	if len(log) <= old {
		return fmt.Errorf("%s: found %d lines, expected more than %d", path, len(log), old)
	}
	return nil
}

func split(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }

func printComparisons(w io.Writer, paths []string, maxBytes, seeds int) error {
	var short error
	err := eachLog(paths, maxBytes, func(name string, log []string) {
		if wrong := checkLength(name, log); wrong != nil {
			short = cmp.Or(short, wrong)
			return
		}
		compare(log, seeds).print(w, name)
	})
	return cmp.Or(err, short)
}

func printCalibration(paths []string, maxBytes int) error {
	total := calibration{}
	fmt.Printf("%-28s %6s", "", "lines")
	for _, rate := range promised {
		fmt.Printf(" %7s", fmt.Sprintf("1/%.0f", 1/rate))
	}
	fmt.Println()
	err := eachLog(paths, maxBytes, func(name string, log []string) {
		c := calibrate(log)
		c.print(os.Stdout, name)
		total.add(c)
	})
	if err == nil {
		total.print(os.Stdout, "all")
	}
	return err
}
