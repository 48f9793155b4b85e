package main

import (
	"reflect"
	"testing"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/kvm2d/internal/config"
)

// Every limit of the transport is the configuration's timeout of that name.
func TestLimitsOf_everyLimitIsConfigured(t *testing.T) {
	var timeouts config.Timeouts
	given := reflect.ValueOf(&timeouts).Elem()
	for i := range given.NumField() {
		given.Field(i).SetInt(int64(time.Duration(i+1) * time.Second))
	}
	limits := reflect.ValueOf(limitsOf(timeouts))
	for i := range limits.NumField() {
		name := limits.Type().Field(i).Name
		want := given.FieldByName(name)
		if !want.IsValid() {
			t.Errorf("%s is not configured", name)
			continue
		}
		if got := limits.Field(i).Int(); got != want.Int() {
			t.Errorf("%s: got %v, want %v", name, time.Duration(got), time.Duration(want.Int()))
		}
	}
}
