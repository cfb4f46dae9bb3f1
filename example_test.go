package lmserve_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/lmserve/lmserve"
	"github.com/lmserve/lmserve/txl"
)

// After a model has read a page in an unusual style, it predicts more text in this style.
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
	fmt.Printf("bits per byte: at first below 2: %t, then below a tenth: %t\n", first < 2,
		second < 0.1)

	// the zero Sampling chooses the most probable bytes
	text, err := stream.Complete([]byte("<<zebra>> "), 27, txl.Sampling{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", text)
	// Output:
	// bits per byte: at first below 2: true, then below a tenth: true
	// ## <<okapi>> ## <<quokka>>
}

// A program watches a log without a server. It prints the lines that are stranger than about 49 of
// 50 ordinary lines.
func ExampleStream_Lines() {
	model, err := lmserve.Embedded("swift", lmserve.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	stream, err := model.Open(model.Settings())
	if err != nil {
		log.Fatal(err)
	}
	watch := stream.Lines(func(l lmserve.Line) {
		if l.Warm && l.Rank >= 50 {
			fmt.Printf("line %d: %s\n", l.Number, l.Text)
		}
	})
	for i := range 120 {
		if i == 100 {
			fmt.Fprintln(watch, "sshd[812]: Failed password for root from 203.0.113.9")
		}
		user := []string{"alice", "bob", "carol"}[i*i%7%3]
		fmt.Fprintf(watch, "sshd[812]: Accepted key for %s from 10.0.0.%d\n", user, i*i%11)
	}
	// Output:
	// line 101: sshd[812]: Failed password for root from 203.0.113.9
}

// Suggest continues a text that a user has typed. The typed text follows the stream's text.
func ExampleStream_Suggest() {
	model, err := lmserve.Embedded("swift", lmserve.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	stream, err := model.Open(model.Settings())
	if err != nil {
		log.Fatal(err)
	}
	stream.Feed([]byte(strings.Repeat("Dear Ms. Quillfeather, thank you for your letter.\n", 8)))
	found, err := stream.Suggest(context.Background(), []byte("Dear Ms. Qu"),
		lmserve.SuggestOptions{Unit: lmserve.UnitWord})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(found[0].Text)
	// Output:
	// illfeather
}

// The model named counts has no neural network. A stream of this model predicts from counts of the
// stream's own text. Lines are rated as with any other model.
func ExampleEmbedded_counts() {
	model, err := lmserve.Embedded("counts", lmserve.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	stream, err := model.Open(model.Settings())
	if err != nil {
		log.Fatal(err)
	}
	costs := stream.FeedCosts([]byte(strings.Repeat("to be or not to be\n", 40)))
	bytes := float64(stream.Tally().Bytes)
	fmt.Printf("bits per byte: %.0f without counts, below 1 with them: %t\n",
		costs.Network/bytes, costs.Bits/bytes < 1)
	// Output:
	// bits per byte: 8 without counts, below 1 with them: true
}

// A snapshot is the complete state of a stream. A restored stream and a fork continue exactly like
// the original stream.
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

// FeedEach scores every byte twice: with the stream's adaptation, and with the static model, which
// does not adapt.
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
