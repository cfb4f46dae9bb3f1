package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/lab/bench"
)

func newModels() *cobra.Command {
	var flags modelFlags
	var measure, asJSON bool
	var seconds float64
	c := &cobra.Command{
		Use:   "models [FILE]...",
		Short: "List the available models with sizes, bits and speed",
		Long: `List the models embedded in the program, model files (NAME.safetensors.zst or
NAME.safetensors) beside the program or in share/lmserve of its installation prefix, and
the given files. --model accepts each by its name.

WEIGHTS is the number of weights, MEMORY their size, and SESSION the size of a session's
state. STATIC and ADAPTIVE are bits per byte without and with fast weights; fewer are
better. For a model of words, they are bits per word or line end. 'lmserve train'
measured them on its validation text, for the network alone, or with a companion of
counts if the model was trained with one. Compare two models only if this and the
validation text (its fingerprint is in --json) are the same. A dash means that the model
file has no measurements. If a file cannot be loaded, its line says why, and the exit code
is 1.

SPEED is measured on this machine if --measure is given: bytes per second that one
session with default settings scores and learns.`,
		Example: "  lmserve models\n  lmserve models --measure --threads 2\n" +
			"  lmserve models own.safetensors.zst --json",
		RunE: func(c *cobra.Command, named []string) error {
			if err := flags.check(); err != nil {
				return err
			}
			if !(seconds > 0 && seconds <= 3600) {
				return usagef("--seconds is %v, expected more than 0, at most 3600", seconds)
			}
			places, err := modelPlaces(named)
			if err != nil {
				return err
			}
			list, failed := []listedModel{}, 0
			for _, p := range places {
				about, m, err := listModel(&flags, p)
				if errors.As(err, new(usageError)) {
					return err
				}
				if err != nil {
					about.Error = err.Error()
					failed++
				} else if measure {
					about.Threads = flags.threads
					about.BytesPerSecond, err = bench.Speed(c.Context(), m, flags.threads,
						time.Duration(seconds*float64(time.Second)))
					if err != nil {
						return err
					}
				}
				list = append(list, about)
			}
			if err := printed(c.OutOrStdout(), list, asJSON, printModels); err != nil {
				return err
			}
			return findings(failed)
		},
	}
	flags.registerComputing(c)
	c.Flags().BoolVar(&measure, "measure", false, "measurement of each model's speed")
	c.Flags().Float64Var(&seconds, "seconds", 2, "duration of each measurement in seconds")
	c.Flags().BoolVar(&asJSON, "json", false, "output as JSON instead of a table")
	return c
}

func modelPlaces(named []string) ([]model.Place, error) {
	places := model.Places(modelFolders())
	for _, name := range named {
		p, err := findModel(name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(places, p) {
			places = append(places, p)
		}
	}
	return places, nil
}

type listedModel struct {
	Name         string `json:"name,omitempty"` // name for --model, or the path of a file
	ID           string `json:"id,omitempty"`
	Place        string `json:"place"` // "embedded", or the path of the file
	Tokenizer    string `json:"tokenizer,omitempty"`
	Weights      int    `json:"weights,omitempty"`
	WeightsBytes int64  `json:"weights_bytes,omitempty"`
	// SessionBytes is the memory of a session with the default settings.
	SessionBytes int64 `json:"session_bytes,omitempty"`
	// Valid is the validation result of training; nil if the model card omits it.
	Valid *measuredBits `json:"valid,omitempty"`
	// BytesPerSecond is 0 if the speed was not measured.
	BytesPerSecond float64 `json:"bytes_per_second,omitempty"`
	// Threads is the number of threads with which BytesPerSecond was measured.
	Threads int    `json:"threads,omitempty"`
	Error   string `json:"error,omitempty"`
}

// measuredBits are bits per token of a validation text, where tokens are bytes or words.
type measuredBits struct {
	Static    float64  `json:"static"`
	Adaptive  *float64 `json:"adaptive,omitempty"`
	Text      string   `json:"text,omitempty"` // the fingerprint of the validation text
	Companion bool     `json:"companion,omitempty"`
	Bytes     int64    `json:"bytes,omitempty"`
}

// listModel loads a model and describes it, without measuring its speed. If loading fails, the
// description has only the name and the place.
func listModel(flags *modelFlags, p model.Place) (about listedModel, m *model.Model, err error) {
	about = listedModel{Name: p.Name, Place: p.String()}
	if m, err = p.Load(); err == nil && !m.Uniform { // without a network, the flags change nothing
		m, err = flags.use(m)
	}
	if err != nil {
		return about, nil, err
	}
	about.ID = m.ID()
	if !m.Uniform {
		about.Weights, about.WeightsBytes = m.LM.Layout.Size, m.WeightsBytes()
	}
	about.Tokenizer = "bytes"
	if m.OfWords() {
		about.Tokenizer = "words"
	}
	about.SessionBytes = stream.StateBytes(m, stream.Defaults(m))
	about.Valid = bitsOf(m.Card)
	return about, m, nil
}

// bitsOf returns the validation result in a model card that lmserve train has written. It returns
// nil for other cards.
func bitsOf(card json.RawMessage) *measuredBits {
	var c struct {
		Valid  *measuredBits `json:"valid"`
		Recipe struct {
			Valid struct {
				Bytes       int64  `json:"bytes"`
				Fingerprint string `json:"fingerprint"`
			} `json:"valid"`
		} `json:"recipe"`
	}
	if len(card) == 0 || json.Unmarshal(card, &c) != nil || c.Valid == nil || c.Valid.Static <= 0 {
		return nil
	}
	c.Valid.Text, c.Valid.Bytes = c.Recipe.Valid.Fingerprint, c.Recipe.Valid.Bytes
	return c.Valid
}

func printModels(w io.Writer, list []listedModel) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tID\tREADS\tWEIGHTS\tMEMORY\tSESSION\tSTATIC\tADAPTIVE\tSPEED\tPLACE")
	for _, m := range list {
		if m.Error != "" {
			fmt.Fprintf(t, "%s\t%s\n", printable(m.Name), printable(m.Error))
			continue
		}
		static, adaptive := "-", "-"
		if m.Valid != nil {
			static = m.Valid.each(m.Valid.Static, m.Tokenizer)
			if m.Valid.Adaptive != nil {
				adaptive = m.Valid.each(*m.Valid.Adaptive, m.Tokenizer)
			}
		}
		speed := "-"
		if m.BytesPerSecond > 0 {
			speed = fmt.Sprintf("%s B/s", digits(m.BytesPerSecond))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%.3g M\t%s\t%s\t%s\t%s\t%s\t%s\n", printable(m.Name), m.ID,
			m.Tokenizer,
			float64(m.Weights)/1e6, megabytes(m.WeightsBytes), megabytes(m.SessionBytes),
			static, adaptive, speed, printable(m.Place))
	}
	return t.Flush()
}

func (b *measuredBits) each(bits float64, tokenizer string) string {
	text := fmt.Sprintf("%.3f a %s", bits, strings.TrimSuffix(tokenizer, "s"))
	if b.Companion {
		text += " with companion"
	}
	return text
}
