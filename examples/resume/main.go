// Command resume feeds a file to a session, and prints its strange lines.
//
//	go run ./examples/resume FILE SESSION [THRESHOLD]
//
// If a connection breaks or the server restarts, the program waits and continues: every byte enters
// the session once, and every line is checked once. A restarted program continues at the session's
// offset. LMSERVE_URL and LMSERVE_KEY set the server and the key.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/lmserve/lmserve/api/client"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 && len(os.Args) != 4 {
		log.Fatal("usage: resume FILE SESSION [THRESHOLD]")
	}
	threshold := 0.001
	if len(os.Args) == 4 {
		var err error
		if threshold, err = strconv.ParseFloat(os.Args[3], 64); err != nil {
			log.Fatal(err)
		}
	}
	if err := run(context.Background(), os.Args[1], os.Args[2], threshold); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, name, id string, threshold float64) error {
	url := cmp.Or(os.Getenv("LMSERVE_URL"), "http://localhost:8080")
	c, err := client.New(url, client.WithKey(os.Getenv("LMSERVE_KEY")))
	if err != nil {
		return err
	}
	session, _, err := c.EnsureSession(ctx, id, client.SessionRequest{})
	if err != nil {
		return err
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Seek(session.Offset, io.SeekStart); err != nil {
		return err
	}
	fmt.Println("from byte", session.Offset)
	offset, err := c.Feed(ctx, id, file, client.FeedOptions{
		Score: client.ScoreOptions{
			Offset: &session.Offset, Lines: true,
			Learn: client.LearnUnflagged, Threshold: threshold, // strange lines are not learned
		},
		Event: func(e client.Event) error {
			if line := e.Line; line.Warm && line.P <= threshold {
				fmt.Printf("one line in %d: %s\n", line.Rank, line.TextBytes())
			}
			return nil
		},
		Waiting: func(cause error, pause time.Duration) {
			log.Printf("trying again in %v: %v", pause, cause)
		},
	})
	fmt.Println("up to byte", offset)
	return err
}
