package session

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPatchIsMergeAndDurable(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{})
	defer func() { sv.stop() }()
	id := create(t, sv.mg, CreateRequest{Labels: map[string]string{"a": "1", "b": "2"},
		TTL: time.Hour})
	score(t, sv.mg, id, "text")
	patch := func(r PatchRequest) Info {
		t.Helper()
		info, err := sv.mg.Patch(background, Caller{}, id, r)
		require.NoError(t, err)
		require.Equal(t, info.Labels, get(t, sv.mg, id).Labels)
		return info
	}
	info := patch(PatchRequest{Labels: map[string]*string{"a": nil, "b": ptr("3"), "c": ptr("4"),
		"x": nil}})
	require.Equal(t, map[string]string{"b": "3", "c": "4"}, info.Labels)
	require.Equal(t, time.Hour, info.TTL, "what is left out stays")
	info = patch(PatchRequest{TTL: ptr(time.Minute)})
	require.Equal(t, time.Minute, info.TTL)

	sv.restart()
	info = get(t, sv.mg, id)
	require.Equal(t, map[string]string{"b": "3", "c": "4"}, info.Labels)
	require.Equal(t, time.Minute, info.TTL)
	require.EqualValues(t, 4, info.Offset)
	info = patch(PatchRequest{Unlabel: true, Labels: map[string]*string{"d": ptr("")},
		TTL: ptr(time.Duration(0))})
	require.Equal(t, map[string]string{"d": ""}, info.Labels)
	require.Zero(t, info.TTL)
	_, sum := score(t, sv.mg, id, "more")
	require.EqualValues(t, 8, sum.Offset, "the session goes on")
	require.Empty(t, sv.told())
}

func TestImpossiblePatchChangesNothing(t *testing.T) {
	mg := newManager(t, Options{})
	id := create(t, mg, CreateRequest{Labels: map[string]string{"a": "1"}})
	many := map[string]*string{}
	for i := range LabelsMax {
		many[fmt.Sprint("l", i)] = ptr("")
	}
	for _, r := range []PatchRequest{
		{Labels: many}, {TTL: ptr(TTLMax + 1)}, {TTL: ptr(-time.Second)},
		{Labels: map[string]*string{"": ptr("")}},
		{Labels: map[string]*string{"a": ptr(strings.Repeat("x", LabelValueCharsMax+1))}},
	} {
		_, err := mg.Patch(background, Caller{}, id, r)
		require.ErrorAs(t, err, new(*FieldError))
		require.Equal(t, map[string]string{"a": "1"}, get(t, mg, id).Labels)
	}
	_, err := mg.Patch(background, Caller{Key: "other"}, id, PatchRequest{})
	require.ErrorIs(t, err, ErrNotFound)
	many["l0"], many["a"] = nil, nil
	_, err = mg.Patch(background, Caller{}, id, PatchRequest{Labels: many})
	require.NoError(t, err)
}

func TestPatchedTTLIsInForce(t *testing.T) {
	mg := newManager(t, Options{})
	now := time.Now()
	mg.engine.clock.read = func() time.Time { return now }
	id, lasting := create(t, mg, CreateRequest{}), create(t, mg, CreateRequest{TTL: time.Minute})
	_, err := mg.Patch(background, Caller{}, id, PatchRequest{TTL: ptr(time.Minute)})
	require.NoError(t, err)
	_, err = mg.Patch(background, Caller{}, lasting, PatchRequest{TTL: ptr(time.Duration(0))})
	require.NoError(t, err)
	now = now.Add(time.Minute)
	page, _, _ := mg.List(Caller{}, "", 0)
	require.Len(t, page, 1)
	require.Equal(t, lasting, page[0].ID)
}

// A patch changes the stored head of a session, not the copy in memory. Another server with the
// same store may have changed the stored head.
func TestPatchBuildsOnWhatStoreHas(t *testing.T) {
	sv := newServer(t, t.TempDir(), Options{})
	defer func() { sv.stop() }()
	id := create(t, sv.mg, CreateRequest{Labels: map[string]string{"a": "1"}})
	found, err := sv.store.Claim(background, id)
	require.NoError(t, err)
	h, err := decodeHead(id, found.Head)
	require.NoError(t, err)
	h.Labels["b"] = "2"
	require.NoError(t, sv.store.SetHead(background, id, found.Epoch, h.encode()))
	info, err := sv.mg.Patch(background, Caller{}, id,
		PatchRequest{Labels: map[string]*string{"c": ptr("3")}})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "1", "b": "2", "c": "3"}, info.Labels)
}

func TestListingByLabelHasEachSessionOnce(t *testing.T) {
	mg := newManager(t, Options{})
	var want []string
	for i := range 3 * lookedAtOnce {
		r := CreateRequest{Settings: Settings{"method": MethodStatic},
			Labels: map[string]string{"n": fmt.Sprint(i % 100)}}
		if id := create(t, mg, r); i%100 == 42 {
			want = append(want, id)
		}
	}
	for _, limit := range []int{1, 3, len(want), 100} {
		var ids []string
		for after, pages := "", 0; ; pages++ {
			page, next, err := mg.List(Caller{}, after, limit, Label{"n", ptr("42")})
			require.NoError(t, err)
			require.LessOrEqual(t, len(page), limit)
			for _, info := range page {
				ids = append(ids, info.ID)
			}
			if after = next; next == "" {
				require.Equal(t, (len(want)-1)/limit, pages)
				break
			}
		}
		require.Equal(t, want, ids)
	}
	page, _, _ := mg.List(Caller{}, "", 1, Label{"n", nil}, Label{"n", ptr("7")})
	require.Equal(t, "7", page[0].Labels["n"])
	page, next, _ := mg.List(Caller{}, "", 10, Label{"m", nil})
	require.Empty(t, page)
	require.Empty(t, next)
}
