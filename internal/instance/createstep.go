package instance

import "time"

// CreateStep is a part of a create that takes time.
type CreateStep string

// The steps whose time is told. Waiting for other work on the name or host is none.
const (
	// StepImage has the base disk at hand, after a download where it is not there.
	StepImage CreateStep = "image"
	// StepVolumes makes overlay and seed.
	StepVolumes CreateStep = "volumes"
	// StepDefine makes the machine known.
	StepDefine CreateStep = "define"
	// StepStart boots it and reads it back.
	StepStart CreateStep = "start"
)

// timed runs one step and tells how long it took, and its outcome.
func (r *createRun) timed(step CreateStep, run func() error) error {
	began := time.Now()
	err := run()
	r.createStep(r.req.id.Host, step, time.Since(began), err)
	return err
}
