package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/lmserve/lmserve/internal/arithmetic/compress"
	"github.com/lmserve/lmserve/internal/arithmetic/model"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/atomicfile"
)

const compressedSuffix = ".lms"

func newCompress() *cobra.Command {
	var flags modelFlags
	var adapt streamFlags
	var out string
	c := &cobra.Command{
		Use:   "compress FILE|- [--out FILE]",
		Short: "Compress a file with the model's predictions",
		Long: `Write a file in the bits that 'lmserve score' reports for it, as a proof of these
bits. An arithmetic coder encodes each byte with the distribution that the model
predicts, and the model adapts as it reads. The compressed file includes a checksum, the
name of the model, its arithmetic and the settings. 'lmserve decompress' restores the
bytes with the same model. It takes several times as long, because it decodes one byte
after the other.`,
		Example: `  lmserve compress access.log
  journalctl | lmserve compress - --out journal.lms
  lmserve compress novel.txt --model mine.safetensors.zst --method dynamic-rms`,
		Args: exactly(1, "a file, or - for standard input"),
		RunE: func(c *cobra.Command, args []string) error {
			to, err := outputName(args[0], out, args[0]+compressedSuffix)
			if err != nil {
				return err
			}
			asked, err := adapt.chosen()
			if err != nil {
				return err
			}
			m, err := flags.load()
			if err != nil {
				return err
			}
			set, err := stream.With(m, asked)
			if err != nil {
				return settingError(err)
			}
			if err := adapt.checkEffect(set.Method); err != nil {
				return err
			}
			set.Seed = adapt.seed
			text, err := readInput(c, args[0])
			if err != nil {
				return err
			}
			p, done := newProgress(c, "compressing "+args[0]), int64(0)
			defer p.end()
			packed, err := compress.Compress(c.Context(), m, set, flags.threads, text, func(n int) {
				done += int64(n)
				p.set(done, int64(len(text)))
			})
			p.end()
			if err != nil {
				return err
			}
			if err := writeOutput(c, to, packed.Write); err != nil {
				return err
			}
			printCompressed(c.ErrOrStderr(), args[0], int64(len(text)), packed)
			return nil
		},
	}
	flags.register(c)
	adapt.register(c)
	c.Flags().StringVar(&out, "out", "",
		"file to write, which must not exist yet (default: FILE"+compressedSuffix+
			"; - is standard output)")
	return c
}

func printCompressed(w io.Writer, name string, size int64, c compress.Compressed) {
	head, text := int64(len(c.Head)), int64(len(c.Text))
	fmt.Fprintf(w, "%s: %s bytes compressed to %s: %s of header, and %s", name,
		humanize.Comma(size), humanize.Comma(head+text), humanize.Comma(head), humanize.Comma(text))
	if size > 0 {
		fmt.Fprintf(w, " for the model's %.4f bits per byte", c.Bits/float64(size))
	}
	fmt.Fprintln(w)
}

func newDecompress() *cobra.Command {
	var flags modelFlags
	var out string
	c := &cobra.Command{
		Use:   "decompress FILE" + compressedSuffix + "|- [--out FILE]",
		Short: "Restore a file that compress wrote",
		Long: `Restore the bytes of a file that 'lmserve compress' wrote, with the model that the
file names and any number of threads. --model is needed only if that model is neither
embedded nor beside the program. Flags that change the model or its arithmetic, such as
--mem-len or --precision, must be the same as for 'lmserve compress'.

The output file appears only if its checksum is correct. Standard output gets bytes as
they are decoded, so check the exit code.`,
		Example: `  lmserve decompress access.log.lms --out copy.log
  lmserve decompress journal.lms --out - | less`,
		Args: exactly(1, "a file, or - for standard input"),
		RunE: func(c *cobra.Command, args []string) error {
			plain, named := strings.CutSuffix(args[0], compressedSuffix)
			if !named && out == "" && args[0] != standardInput {
				return usagef("%s does not end in %s: name the output file with "+
					"--out", args[0], compressedSuffix)
			}
			to, err := outputName(args[0], out, plain)
			if err != nil {
				return err
			}
			in, closeIn, err := openAll(c.Context(), []string{args[0]}, c.InOrStdin())
			if err != nil {
				return err
			}
			defer closeIn()
			r, err := compress.Read(&patientReader{ctx: c.Context(), in: in})
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			m, err := decompressor(&flags, r)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			p := newProgress(c, "decompressing "+args[0])
			defer p.end()
			err = writeOutput(c, to, func(w io.Writer) error {
				to := &progressWriter{ctx: c.Context(), w: w, total: r.Bytes, set: p.set}
				return r.Decompress(c.Context(), m, flags.threads, to)
			})
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return nil
		},
	}
	flags.register(c)
	c.Flags().StringVar(&out, "out", "", "file to write, which must not exist yet "+
		"(default: FILE without "+compressedSuffix+"; - is standard output)")
	return c
}

// decompressor loads the model that a file was compressed with: the model given by --model, or else
// the named model whose ID the file contains.
func decompressor(flags *modelFlags, r *compress.Reader) (*model.Model, error) {
	finder, err := flags.finder()
	if err != nil {
		return nil, err
	}
	m, err := finder.find(r.Model)
	if err != nil {
		return nil, err
	}
	if m.ID() == r.Model || flags.path != "" {
		return m, r.Check(m)
	}
	var found []string
	for _, m := range finder.loaded {
		found = append(found, m.ID())
	}
	return nil, fmt.Errorf("found the models %s, expected the model %s, which compressed the "+
		"text: give the file of that model with --model, and the values of --mem-len, --clamp-len "+
		"and --same-length that compress had",
		strings.Join(found, ", "), r.Model)
}

// outputName returns the file name in --out, or the usual name if --out is empty. It refuses an
// existing file.
func outputName(in, out, usual string) (string, error) {
	if out == "" {
		if out = usual; in == standardInput {
			return "", usagef("--out is missing: with standard input, name the output file with " +
				"--out")
		}
	}
	if out == standardInput {
		return out, nil
	}
	if err := absent(out); err != nil {
		return "", fmt.Errorf("%w: name an unused file with --out", err)
	}
	return out, nil
}

func readInput(c *cobra.Command, name string) ([]byte, error) {
	in, closeIn, err := openAll(c.Context(), []string{name}, c.InOrStdin())
	if err != nil {
		return nil, err
	}
	defer closeIn()
	return io.ReadAll(&patientReader{ctx: c.Context(), in: in})
}

// writeOutput writes a new file completely or not at all, or writes to standard output.
func writeOutput(c *cobra.Command, name string, fill func(io.Writer) error) error {
	if name == standardInput {
		return fill(c.OutOrStdout())
	}
	return atomicfile.Write(name, atomicfile.Options{Exclusive: true}, fill)
}
