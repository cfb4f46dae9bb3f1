package main

import (
	"crypto/sha256"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTasksKeepMoveAndAddClasses(t *testing.T) {
	train, _, _ := split(1)
	all := tasks(train, 50, 1, 15, rand.New(rand.NewPCG(1, 1)))
	for n, now := range all {
		require.True(t, now.rounds >= 1 && now.rounds <= 15)
		if n == 0 {
			continue
		}
		before := all[n-1]
		var kept, moved, fresh int
		for label, class := range now.classes {
			require.Contains(t, train, class)
			require.Equal(t, label, slices.Index(now.classes[:], class), "classes differ")
			old := slices.Index(before.classes[:], class)
			switch {
			case old == label:
				kept++
				require.True(t, now.kept[label])
			case old >= 0:
				moved++
				require.Equal(t, old, now.old[label])
			default:
				fresh++
				require.False(t, now.kept[label] || now.old[label] >= 0)
			}
		}
		require.Equal(t, []int{keptCount, movedCount, 2}, []int{kept, moved, fresh})
	}
}

func TestSplitsShareNoClass(t *testing.T) {
	train, dev, test := split(1)
	require.Equal(t, []int{40, 30, 30}, []int{len(train), len(dev), len(test)})
	all := slices.Concat(train, dev, test)
	slices.Sort(all)
	require.Len(t, slices.Compact(all), classCount)
}

func TestTaskShowsNoImageTwice(t *testing.T) {
	s := generate(1)
	now := tasks([]int{3, 1, 4, 15, 9}, 1, 75, 75, rand.New(rand.NewPCG(2, 2)))[0]
	seen := map[string]bool{}
	require.NoError(t, now.play(s, rand.New(rand.NewPCG(3, 3)), func(r round) error {
		for i := range r.labels {
			pixels := s.side * s.side
			var key []float64
			for c := range 3 {
				key = append(key, r.x.Row(c)[i*pixels:][:pixels]...)
			}
			seen[fmt.Sprint(key)] = true
		}
		return nil
	}))
	require.Len(t, seen, 75*batchSize)
}

func TestGeneratedClassesNeedManyPixels(t *testing.T) {
	s := generate(1)
	const size = 3 * generatedSide * generatedSide
	classes := rand.New(rand.NewPCG(4, 4)).Perm(classCount)[:labelCount]
	var means [labelCount][size]float64
	for label, class := range classes {
		for _, image := range s.stream[class] {
			for k, v := range image {
				means[label][k] += float64(v) / streamCount
			}
		}
	}
	accuracy := func(pixels []int) float64 {
		var right share
		for label, class := range classes {
			for _, image := range s.held[class] {
				best, least := 0, math.Inf(1)
				for guess := range means {
					distance := 0.
					for _, k := range pixels {
						distance += math.Pow(float64(image[k])-means[guess][k], 2)
					}
					if distance < least {
						best, least = guess, distance
					}
				}
				right.add(best == label)
			}
		}
		return right.value()
	}
	all, top := make([]int, size), 0.
	for k := range all {
		all[k] = k
		top = max(top, accuracy([]int{k}))
	}
	together := accuracy(all)
	t.Logf("best pixel %.3f, all pixels %.3f", top, together)
	require.Less(t, top, .5)
	require.Greater(t, together, top+.1)
}

func fakeRecords() []byte {
	data := make([]byte, classCount*(2+3*cifarSide*cifarSide))
	for class := range classCount {
		record := data[class*len(data)/classCount:]
		record[0], record[1], record[2] = 7, byte(class), byte(2*class)
	}
	return data
}

func TestRecordsAreReadByFineLabel(t *testing.T) {
	p := part{"few.bin", "", 1}
	data := fakeRecords()
	classes, err := parse(data, p)
	require.NoError(t, err)
	require.Equal(t, byte(198), classes[99][0][0])

	data[1] = 100
	_, err = parse(data, p)
	require.EqualError(t, err, "few.bin has the fine label 100, want at most 99")
	data[1] = 1
	_, err = parse(data, p)
	require.EqualError(t, err, "few.bin has 0 images of label 0, want 1")
	_, err = parse(data[1:], p)
	require.EqualError(t, err, "few.bin has 307399 bytes, want 307400")
}

func TestWrongFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	_, err := readCIFAR(dir)
	require.ErrorContains(t, err, "expected the file cifar-100-binary.tar.gz, or the files "+
		"train.bin and test.bin, in directory "+dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "train.bin"), fakeRecords(), 0o666))
	_, err = readCIFAR(dir)
	require.ErrorContains(t, err, fmt.Sprintf("train.bin has the SHA-256 sum %x, want f31298fc",
		sha256.Sum256(fakeRecords())))
}
