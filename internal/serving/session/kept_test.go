package session

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func keptOffsets(t *testing.T, sv *server, id string) (all []int64) {
	kept, err := sv.store.Snapshots(background, id)
	require.NoError(t, err)
	for _, k := range kept {
		all = append(all, k.Offset)
	}
	return all
}

// spread returns a server and a session of the given number of chunks, with a snapshot after each
// chunk. Parameter `most` is the maximum number of snapshots kept for forks.
func spread(t *testing.T, chunks, most int) (sv *server, id, text string) {
	sv = newServer(t, t.TempDir(), Options{ReplayMax: 1, ForkSnapshots: most})
	t.Cleanup(func() { sv.stop() })
	id, text = create(t, sv.mg, CreateRequest{}), logText(chunks*testChunk)
	score(t, sv.mg, id, text)
	return sv, id, text
}

// The state of a fork is recovered from the nearest snapshot, with the same bits as from the start.
// The fork may begin at a snapshot, within a record, before the first or after the last snapshot.
// It may also be a fork of a fork.
func TestForkFarBackBeginsAtNearestKeptSnapshot(t *testing.T) {
	sv, id, text := spread(t, 40, 4)
	kept := keptOffsets(t, sv, id)
	require.Len(t, kept, 4+recoverySnapshots)
	for _, at := range []int64{0, 3, kept[0], kept[1] - 1, kept[2] + 5, kept[3], kept[4], kept[5]} {
		info, err := sv.mg.Fork(background, Caller{}, id, ForkRequest{AtOffset: &at})
		require.NoError(t, err)
		again, err := sv.mg.Fork(background, Caller{}, info.ID, ForkRequest{AtOffset: ptr(at / 2)})
		require.NoError(t, err)
		requireFed(t, sv.mg, info.ID, text[:at], "at %d", at)
		requireFed(t, sv.mg, again.ID, text[:at/2], "at %d", at/2)
	}
	require.NoError(t, sv.mg.Delete(Caller{}, id))
	checkFolder(t, sv)
	require.Empty(t, sv.told())
}

// A fork that begins at a snapshot needs no recomputation. So a score request succeeds, although it
// may wait only 1 ns for a recovery.
func TestForkAtKeptSnapshotComputesNothing(t *testing.T) {
	sv, id, text := spread(t, 40, 4)
	kept := keptOffsets(t, sv, id)
	for _, at := range kept {
		info, err := sv.mg.Fork(background, Caller{}, id, ForkRequest{AtOffset: &at})
		require.NoError(t, err)
		sv.mg.engine.scoreRecovery = 1
		_, err = feed(sv, info.ID, "on", at)
		require.NoError(t, err)
		requireText(t, sv, info.ID, text[:at]+"on")
	}
}

func TestForkUsesSnapshotBeforeDamagedOne(t *testing.T) {
	sv, id, text := spread(t, 40, 4)
	kept := keptOffsets(t, sv, id)
	sv.stop()
	for _, at := range kept[2:] {
		name := fmt.Sprintf("state.%016x", at)
		require.NoError(t, os.Truncate(filepath.Join(sv.dir, "sessions", id, name), 10))
	}
	sv.start()
	at := kept[3] + 1
	info, err := sv.mg.Fork(background, Caller{}, id, ForkRequest{AtOffset: &at})
	require.NoError(t, err)
	requireFed(t, sv.mg, info.ID, text[:at])
	require.Len(t, sv.told(), 2, "the fork goes on without two")
	requireFed(t, sv.mg, id, text)
	require.Len(t, sv.told(), 4, "the session goes on without all four")
	require.Equal(t, kept[:2], keptOffsets(t, sv, id)[:2])
	require.NoError(t, sv.mg.Delete(Caller{}, info.ID))
	checkFolder(t, sv)
	require.Empty(t, sv.told())
}

// If a session uses more than half of the disk limit, it gets no more snapshots for forks, and
// existing ones are dropped. Snapshots for recovery are kept.
func TestSnapshotsForForksTakeHalfOfTheDiskAtMost(t *testing.T) {
	sv, id, _ := spread(t, 10, 4)
	require.Len(t, keptOffsets(t, sv, id), 4+recoverySnapshots)
	who := Caller{MaxDisk: get(t, sv.mg, id).DiskBytes * 3 / 2}
	more := func() {
		_, err := sv.mg.Score(background, who, id, &reads{logText(testChunk)}, ScoreOptions{},
			noChunks)
		require.NoError(t, err)
	}
	more()
	require.Len(t, keptOffsets(t, sv, id), recoverySnapshots)
	who.MaxDisk = 0
	more()
	more()
	require.Len(t, keptOffsets(t, sv, id), 2+recoverySnapshots)
}

// A session with HistoryTail has no snapshots for forks. After the limit on such snapshots was
// lowered, the surplus is dropped.
func TestSurplusSnapshotsForForksAreDropped(t *testing.T) {
	sv, id, text := spread(t, 12, 8)
	tail := create(t, sv.mg, CreateRequest{History: HistoryTail})
	score(t, sv.mg, tail, text)
	require.Len(t, keptOffsets(t, sv, tail), recoverySnapshots)
	fork, err := sv.mg.Fork(background, Caller{}, id, ForkRequest{History: HistoryTail})
	require.NoError(t, err)
	score(t, sv.mg, fork.ID, logText(2*testChunk))
	require.Len(t, keptOffsets(t, sv, fork.ID), recoverySnapshots)
	require.Len(t, keptOffsets(t, sv, id), 8+recoverySnapshots)
	sv.options.ForkSnapshots = 0
	sv.restart()
	score(t, sv.mg, id, logText(2*testChunk))
	require.Len(t, keptOffsets(t, sv, id), recoverySnapshots)
	checkFolder(t, sv)
	require.Empty(t, sv.told())
}

func TestSnapshotsForForksAreRareAtTheirLimit(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{ReplayMax: time.Hour, ForkSnapshots: 2})
	defer func() { sv.stop() }()
	sv.mg.engine.snapshots.apart = 1
	id := create(t, sv.mg, CreateRequest{})
	score(t, sv.mg, id, logText(9*testChunk))
	require.Equal(t, []int64{testChunk, 2 * testChunk, 3 * testChunk, 4 * testChunk},
		keptOffsets(t, sv, id))
}

// A request may limit its wait for the state of a fork. At this limit the request fails, and its
// error contains the progress of the recovery. A request with a longer wait succeeds.
func TestRequestWaitsForForkAsLongAsItSays(t *testing.T) {
	text := logText(30*testChunk + 5)
	at := int64(20*testChunk + 3)
	scoring := func(o ScoreOptions) func(*Manager, string, time.Duration) error {
		return func(mg *Manager, id string, wait time.Duration) error {
			o.Wait = wait
			return errOf(mg.Score(background, Caller{}, id, &reads{"on"}, o, noChunks))
		}
	}
	completing := func(commit string) func(*Manager, string, time.Duration) error {
		return func(mg *Manager, id string, wait time.Duration) error {
			r := CompleteRequest{Prompt: []byte("on"), MaxTokens: 1, Commit: commit, Wait: wait}
			return errOf(mg.Complete(background, Caller{}, id, r, noPieces))
		}
	}
	for name, request := range map[string]func(*Manager, string, time.Duration) error{
		"score":                 scoring(ScoreOptions{}),
		"score of lines":        scoring(ScoreOptions{Lines: true}),
		"score without":         scoring(ScoreOptions{Learn: LearnFalse}),
		"completion":            completing(CommitNone),
		"completion that feeds": completing(CommitPrompt),
		"export": func(mg *Manager, id string, wait time.Duration) error {
			return mg.Export(background, Caller{}, id, wait, io.Discard, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			sv, id := coldServer(t, text, Options{ReplayMax: time.Hour})
			defer func() { sv.stop() }()
			sv.mg.engine.forkRecovery, sv.mg.engine.scoreRecovery = 1, 1
			info, err := sv.mg.Fork(background, Caller{}, id, ForkRequest{AtOffset: &at})
			require.NoError(t, err)
			var again *RecoveringError
			err = request(sv.mg, info.ID, 1)
			require.ErrorAs(t, err, &again)
			require.ErrorIs(t, err, ErrOverloaded)
			require.Equal(t, at, again.Of)
			require.Less(t, again.Done, at)
			require.Equal(t, again.Recovery, *get(t, sv.mg, info.ID).Recovery)
			require.Equal(t, at, get(t, sv.mg, info.ID).Offset)
			require.NoError(t, request(sv.mg, info.ID, time.Minute))
			require.Nil(t, get(t, sv.mg, info.ID).Recovery)
			requireFed(t, sv.mg, id, text)
			require.Empty(t, sv.told())
		})
	}
}
