package codec

import (
	"iter"
	"reflect"
	"strings"

	"github.com/lmserve/lmserve/api"
	"github.com/lmserve/lmserve/internal/serving/session"
)

// decodeSettings returns the settings in a request, keyed by their names in the contract. A nil
// field means that the request omits the setting.
func decodeSettings(given api.SettingsRequest) session.Settings {
	settings := session.Settings{}
	for name, field := range fieldsByName(&given) {
		if field.IsZero() {
			continue
		}
		field = reflect.Indirect(field)
		if field.Kind() == reflect.String { // converts a named string type to string
			field = reflect.ValueOf(field.String())
		}
		settings[name] = field.Interface()
	}
	return settings
}

// EncodeSettings encodes the settings of a session or a model. A missing list becomes an empty
// list, never null.
func EncodeSettings(inForce session.Settings) api.Settings {
	var settings api.Settings
	for name, field := range fieldsByName(&settings) {
		if value := reflect.ValueOf(inForce[name]); value.IsValid() {
			field.Set(value.Convert(field.Type()))
		}
		if field.Kind() == reflect.Slice && field.IsNil() {
			field.Set(reflect.MakeSlice(field.Type(), 0, 0))
		}
	}
	return settings
}

// fieldsByName iterates over the fields of the struct *p, by their JSON names.
func fieldsByName(p any) iter.Seq2[string, reflect.Value] {
	object := reflect.ValueOf(p).Elem()
	return func(yield func(string, reflect.Value) bool) {
		for i := range object.NumField() {
			name, _, _ := strings.Cut(object.Type().Field(i).Tag.Get("json"), ",")
			if !yield(name, object.Field(i)) {
				return
			}
		}
	}
}
