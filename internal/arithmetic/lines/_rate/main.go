// Rate prints the P of each line of the logs DATA/*/log.txt to OUT/*.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/lmserve/lmserve/internal/arithmetic/lines"
)

func main() {
	logs, _ := filepath.Glob(filepath.Join(os.Args[1], "*", "log.txt"))
	var bytesAll int
	var took time.Duration
	for _, path := range logs {
		b, err := os.ReadFile(path)
		if err != nil {
			panic(err)
		}
		f, err := os.Create(filepath.Join(os.Args[2], filepath.Base(filepath.Dir(path))))
		if err != nil {
			panic(err)
		}
		w := bufio.NewWriter(f)
		r := lines.NewRating()
		all := bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
		begun := time.Now()
		for _, l := range all {
			p, parts, from, to := r.Take(l)
			fmt.Fprintf(w, "%.6g %.2f %.2f %.2f %.2f %s\n", p, parts.B, parts.E, parts.V, parts.W, l[from:to])
		}
		took += time.Since(begun)
		bytesAll += len(b)
		w.Flush()
		f.Close()
	}
	fmt.Printf("%.2f MB/s\n", float64(bytesAll)/1e6/took.Seconds())
}
