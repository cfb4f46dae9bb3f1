package lmserve_test

import (
	"bytes"
	"fmt"
	"log"
	"strings"

	"github.com/lmserve/lmserve"
	"github.com/lmserve/lmserve/txl"
)

// A model that has read a page in an unusual style expects more of the same.
func Example() {
	model, err := lmserve.Default(lmserve.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	stream, err := model.Open(model.Settings())
	if err != nil {
		log.Fatal(err)
	}
	page := []byte(strings.Repeat("<<zebra>> ## <<okapi>> ## <<quokka>>\n", 20))
	first := stream.Feed(page) / float64(len(page))
	second := stream.Feed(page) / float64(len(page))
	fmt.Printf("bits per byte: at first below 2: %t, then below a tenth: %t\n", first < 2, second < 0.1)

	text, err := stream.Complete([]byte("<<zebra>> "), 27, txl.Sampling{}) // the likeliest bytes
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", text)
	// Output:
	// bits per byte: at first below 2: true, then below a tenth: true
	// ## <<okapi>> ## <<quokka>>
}

// A snapshot is the whole state of a stream: what is restored from it, and a fork, go on as the
// stream itself would.
func ExampleStream_Snapshot() {
	model, err := lmserve.Default(lmserve.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	stream, err := model.Open(model.Settings())
	if err != nil {
		log.Fatal(err)
	}
	stream.Feed([]byte("It was the best of times, "))

	var file bytes.Buffer
	if err := stream.Snapshot(&file); err != nil {
		log.Fatal(err)
	}
	restored, err := model.Restore(&file)
	if err != nil {
		log.Fatal(err)
	}
	fork, err := stream.Fork()
	if err != nil {
		log.Fatal(err)
	}
	rest := []byte("it was the worst of times")
	bits := stream.Feed(rest)
	fmt.Println(restored.Feed(rest) == bits, fork.Feed(rest) == bits)
	fmt.Println(stream.Tally().Bytes, "bytes")
	// Output:
	// true true
	// 51 bytes
}

// FeedEach gives a score for every byte, and beside it the score of the model as it is when it
// learns nothing.
func ExampleStream_FeedEach() {
	model, err := lmserve.Default(lmserve.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	settings := model.Settings()
	settings.Baseline = true
	stream, err := model.Open(settings)
	if err != nil {
		log.Fatal(err)
	}
	text := strings.Repeat("one potato, two potato, three potato, four\n", 6)
	surprising := 0
	stream.FeedEach([]byte(text), func(b byte, bits, static float64) {
		if bits > 4 {
			surprising++
		}
	})
	fmt.Println("a few bytes in six lines were a surprise:", surprising > 0 && surprising < 30)
	fmt.Println("to learn made the text cheaper:", stream.Tally().Bits < stream.Baseline().Bits)
	// Output:
	// a few bytes in six lines were a surprise: true
	// to learn made the text cheaper: true
}
