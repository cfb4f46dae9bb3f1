package codec

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/arithmetic/stream"
	"github.com/lmserve/lmserve/internal/serving/session"
)

// A client that sends back the encoded settings of a session requests the same values.
func TestEverySettingComesBackAsItWasTold(t *testing.T) {
	inForce := session.Settings{}
	for i, row := range stream.Table {
		switch row.Field(new(stream.Settings)).(type) {
		case *string:
			inForce[row.Name] = row.Words[len(row.Words)-1]
		case *bool:
			inForce[row.Name] = true
		case *int:
			inForce[row.Name] = i + 2
		case *float32:
			inForce[row.Name] = float32(.1) / float32(i+1)
		case *float64:
			inForce[row.Name] = .1 / float64(i+1)
		case *[]float32:
			inForce[row.Name] = []float32{.1, 1. / 3}
		}
		require.Contains(t, inForce, row.Name, "no value of its type")
	}
	told, err := json.Marshal(EncodeSettings(inForce))
	require.NoError(t, err)
	var asked api.SettingsRequest
	require.NoError(t, json.Unmarshal(told, &asked))
	require.Equal(t, inForce, decodeSettings(asked))
}

func TestSettingsThatAreLeftOut(t *testing.T) {
	require.Empty(t, decodeSettings(api.SettingsRequest{}))
	zero := float32(0)
	require.Equal(t, session.Settings{"rate": zero},
		decodeSettings(api.SettingsRequest{Rate: &zero}))
	told := EncodeSettings(session.Settings{"gammas": []float32(nil)})
	require.Equal(t, api.Settings{Gammas: []float32{}}, told)
}
