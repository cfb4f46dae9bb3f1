package metatrain

import (
	"reflect"
	"unsafe"

	"gorgonia.org/gorgonia"
)

// gorgonia.AdamSolver (v0.9.18) keeps its step count and moments in unexported fields and cannot
// save them. Without them a resumed training would not continue to the same bits. This file
// accesses them by name. TestAdamKeepsItsState fails if a later version changes their names or
// types.
//
//	type AdamSolver struct { ...; iter int; cache []*dualValue }
//	type dualValue struct { Value; d Value }   // the mean; the variance

// field returns a struct's field, even an unexported one, in a form that can be read and set.
func field(structure reflect.Value, name string) reflect.Value {
	f := structure.FieldByName(name)
	return reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem()
}

// iteration returns a pointer to the solver's number of completed steps.
func iteration(s *gorgonia.AdamSolver) *int {
	return field(reflect.ValueOf(s).Elem(), "iter").Addr().Interface().(*int)
}

// moments returns the solver's mean and variance vectors, or nil before the first step. The solver
// has only one parameter vector.
func moments(s *gorgonia.AdamSolver) (mean, variance []float64) {
	cache := field(reflect.ValueOf(s).Elem(), "cache")
	if cache.Len() == 0 {
		return nil, nil
	}
	dual := cache.Index(0).Elem()
	value := func(name string) []float64 {
		return field(dual, name).Interface().(gorgonia.Value).Data().([]float64)
	}
	return value("Value"), value("d")
}

// setMoments sets the solver's mean and variance vectors. The solver keeps the slices. If mean is
// nil, setMoments restores the state before the first step.
func setMoments(s *gorgonia.AdamSolver, mean, variance []float64) {
	cache := field(reflect.ValueOf(s).Elem(), "cache")
	cache.SetZero()
	if mean == nil {
		return
	}
	dual := reflect.New(cache.Type().Elem().Elem())
	field(dual.Elem(), "Value").Set(reflect.ValueOf(dense(mean)))
	field(dual.Elem(), "d").Set(reflect.ValueOf(dense(variance)))
	cache.Set(reflect.Append(cache, dual))
}
