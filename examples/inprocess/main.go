// Command inprocess reads a log on standard input and prints the strange lines, without a server.
package main

import (
	"fmt"
	"io"
	"log"
	"os"

	"github.com/lmserve/lmserve"
)

func main() {
	model, err := lmserve.Embedded("swift", lmserve.Options{Threads: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	stream, err := model.Open(model.Settings())
	if err != nil {
		log.Fatal(err)
	}
	watch := stream.Lines(func(l lmserve.Line) {
		if l.Warm && l.Rank >= 100 {
			fmt.Printf("line %d, one of %d: %s\n", l.Number, l.Rank, l.Text)
		}
	})
	if _, err := io.Copy(watch, os.Stdin); err != nil {
		log.Fatal(err)
	}
}
