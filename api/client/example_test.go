package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/lmserve/lmserve/api/client"
)

// A session is one stream of text. Its scores and completions show what the model has learned from
// the text.
func Example() {
	url, stop := serve() // serve starts a test server; a program uses its server's URL
	defer stop()
	ctx := context.Background()
	c, err := client.New(url)
	if err != nil {
		log.Fatal(err)
	}
	if _, _, err := c.EnsureSession(ctx, "menus", client.SessionRequest{}); err != nil {
		log.Fatal(err)
	}
	menu := []byte(strings.Repeat("monday: fennel soup; tuesday: okra stew\n", 12))
	score, err := c.ScoreText(ctx, "menus", menu, client.ScoreOptions{})
	if err != nil {
		log.Fatal(err)
	}
	again, err := c.ScoreText(ctx, "menus", menu, client.ScoreOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("it costs less than a third, the second time:", again.Bits < score.Bits/3)

	completion, err := c.Complete(ctx, "menus", client.CompletionRequest{
		Prompt: new("monday: "), Temperature: new(0.0), Stop: client.StopAt("\n"),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(completion.Text)
	// Output:
	// it costs less than a third, the second time: true
	// fennel soup; tuesday: okra stew
}

// Strange lines are scored but not learned, so that they are still strange when they recur.
func ExampleClient_Feed() {
	url, stop := serve()
	defer stop()
	ctx := context.Background()
	c, err := client.New(url)
	if err != nil {
		log.Fatal(err)
	}
	session, _, err := c.EnsureSession(ctx, "web-1", client.SessionRequest{})
	if err != nil {
		log.Fatal(err)
	}
	usual := strings.Repeat("GET /index.html 200\nGET /style.css 200\nGET /logo.png 304\n", 20)
	stream := strings.NewReader(usual + "GET /../../etc/passwd 200\n" + usual)
	offset, err := c.Feed(ctx, session.ID, stream, client.FeedOptions{
		Score: client.ScoreOptions{
			Offset: &session.Offset, Lines: true, Learn: client.LearnUnflagged, Threshold: 0.005,
		},
		Event: func(e client.Event) error {
			if line := e.Line; line.Warm && line.P <= 0.005 {
				fmt.Printf("line %d: %s\n", line.Number, line.TextBytes())
			}
			return nil
		},
	})
	fmt.Println(offset, err)
	// Output:
	// line 61: GET /../../etc/passwd 200
	// 2306 <nil>
}

// Events arrive while the client is still sending the text.
func ExampleClient_Score() {
	url, stop := serve()
	defer stop()
	ctx := context.Background()
	c, err := client.New(url)
	if err != nil {
		log.Fatal(err)
	}
	session, err := c.CreateSession(ctx, client.SessionRequest{
		Settings: &client.SettingsRequest{Baseline: new(true)},
	})
	if err != nil {
		log.Fatal(err)
	}
	text := strings.NewReader(strings.Repeat("one potato, two potato, ", 16))
	for e, err := range c.Score(ctx, session.ID, text, client.ScoreOptions{}) {
		switch {
		case err != nil:
			log.Fatal(err)
		case e.Chunk != nil && e.Chunk.Offset > 0:
			better := e.Chunk.Bits < *e.Chunk.BaselineBits
			fmt.Println("bytes", e.Chunk.Offset, "and on: better than the static model:", better)
		case e.Summary != nil:
			fmt.Println(e.Summary.Bytes, "bytes")
		}
	}
	// Output:
	// bytes 128 and on: better than the static model: true
	// bytes 256 and on: better than the static model: true
	// 384 bytes
}

// CompleteStream yields the text piece by piece while the model samples.
func ExampleClient_CompleteStream() {
	url, stop := serve()
	defer stop()
	ctx := context.Background()
	c, err := client.New(url)
	if err != nil {
		log.Fatal(err)
	}
	session, err := c.CreateSession(ctx, client.SessionRequest{})
	if err != nil {
		log.Fatal(err)
	}
	for e, err := range c.CompleteStream(ctx, session.ID, client.CompletionRequest{
		Prompt: new("The ship sailed to"), MaxTokens: new(7), Temperature: new(0.0),
	}) {
		switch {
		case err != nil:
			log.Fatal(err)
		case e.Piece != nil:
			fmt.Print(e.Piece.Text)
		case e.Done != nil:
			fmt.Printf("\n%s after %d tokens\n", e.Done.FinishReason, e.Done.Usage.CompletionTokens)
		}
	}
	// Output:
	// the sh
	// length after 7 tokens
}

// An Error names the invalid field of the request, the value found and the value expected.
func ExampleError() {
	url, stop := serve()
	defer stop()
	ctx := context.Background()
	c, err := client.New(url)
	if err != nil {
		log.Fatal(err)
	}
	_, err = c.CreateSession(ctx, client.SessionRequest{
		Settings: &client.SettingsRequest{Gammas: []float32{0.99, 1.5}},
	})
	var problem *client.Error
	if errors.As(err, &problem) {
		fmt.Println(problem.Status, problem.Type)
		fmt.Println(problem.Field, "is", problem.Found, "and has to be", problem.Expected)
	}
	_, err = c.GetSession(ctx, "nobody")
	fmt.Println(client.Is(err, client.ProblemSessionNotFound))
	// Output:
	// 422 urn:lmserve:problem:invalid-field
	// settings.gammas[1] is 1.5 and has to be a number from 0 to 1
	// true
}
