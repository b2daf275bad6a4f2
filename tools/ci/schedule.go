package main

import (
	"context"
	"slices"
	"time"
)

// jobs is how many stages run at the same time. Most of them wait half of the time, or use two processors.
const jobs = 2

// Status is how a stage ended.
type Status string

// The results of a stage.
const (
	// Passed means that the stage passed at its first attempt.
	Passed Status = "passed"
	// Cached means that the stage did not run, because it has passed with the same inputs before.
	Cached Status = "cached"
	// Flaky means that the first attempt failed, and the second one passed.
	Flaky Status = "flaky"
	// Failed means that both attempts failed.
	Failed Status = "failed"
	// Skipped means that the stage did not run or end, because a stage that it needs failed or the run was interrupted.
	Skipped Status = "skipped"
)

// Result is the result of a stage at the end of a run.
type Result struct {
	Stage  Stage
	Status Status
	// Duration is that of all attempts.
	Duration time.Duration
	// Tests are the tests that failed at the first attempt, as "package Test", if the stage's output names them.
	Tests []string
	// Invariants are the broken invariants that the output of any attempt names.
	Invariants []string
	// Log is the file with the output of the first attempt.
	Log string

	// record is the cache record of the inputs at the first attempt. Later changes of the tree do not affect it.
	record record
}

// ok reports whether stages that need this one may run.
func (r Result) ok() bool { return r.Status == Passed || r.Status == Cached || r.Status == Flaky }

// Executor runs single stages.
type Executor interface {
	// First runs a stage for the first time. Its Status is Passed, Cached or Failed, or Skipped if ctx ended.
	First(ctx context.Context, s Stage) Result
	// Again runs a failed stage a second time, while no other stage runs. Its Status is Flaky or Failed.
	Again(ctx context.Context, failed Result) Result
}

// Run runs stages, at most jobs at the same time, in the order of the list as far as their needs allow. Failed stages
// run again at the end, and then the stages that need them. The results are in the order of the stages.
func Run(ctx context.Context, stages []Stage, executor Executor) []Result {
	r := &run{stages: stages, executor: executor, results: map[string]Result{}}
	r.parallel(ctx)
	for _, s := range stages {
		if result, ended := r.results[s.Name]; ended && result.Status == Failed && ctx.Err() == nil {
			r.results[s.Name] = executor.Again(ctx, result)
		}
		if _, ended := r.results[s.Name]; !ended && r.mayRun(s) && ctx.Err() == nil {
			r.runDeferred(ctx, s)
		}
	}
	results := make([]Result, 0, len(stages))
	for _, s := range stages {
		result, ended := r.results[s.Name]
		if !ended {
			result = Result{Stage: s, Status: Skipped}
		}
		results = append(results, result)
	}
	return results
}

// run is the state of one run.
type run struct {
	stages   []Stage
	executor Executor
	results  map[string]Result
	running  []Stage
}

// parallel runs everything whose needs pass at their first attempt.
func (r *run) parallel(ctx context.Context) {
	ended := make(chan Result)
	for {
		for s, found := r.next(); found && ctx.Err() == nil; s, found = r.next() {
			r.running = append(r.running, s)
			go func() { ended <- r.executor.First(ctx, s) }()
		}
		if len(r.running) == 0 {
			return
		}
		result := <-ended
		r.results[result.Stage.Name] = result
		r.running = slices.DeleteFunc(r.running, func(s Stage) bool { return s.Name == result.Stage.Name })
	}
}

// runDeferred runs a stage alone that had to wait for the second attempt of another one.
func (r *run) runDeferred(ctx context.Context, s Stage) {
	result := r.executor.First(ctx, s)
	if result.Status == Failed && ctx.Err() == nil {
		result = r.executor.Again(ctx, result)
	}
	r.results[s.Name] = result
}

// next returns the first stage that can start now.
func (r *run) next() (Stage, bool) {
	if slices.ContainsFunc(r.running, func(s Stage) bool { return s.Alone }) {
		return Stage{}, false
	}
	for _, s := range r.stages {
		if r.hasStarted(s.Name) || !r.mayRun(s) || !r.hasCapacity(s) {
			continue
		}
		return s, true
	}
	return Stage{}, false
}

// hasCapacity reports whether a stage can run in parallel with those that run.
func (r *run) hasCapacity(s Stage) bool {
	return len(r.running) == 0 || !s.Alone && len(r.running) < jobs
}

// hasStarted reports whether a stage runs or has ended.
func (r *run) hasStarted(name string) bool {
	_, ended := r.results[name]
	return ended || slices.ContainsFunc(r.running, func(s Stage) bool { return s.Name == name })
}

// mayRun reports whether everything that a stage needs has passed, and everything that it comes after has ended or
// cannot run.
func (r *run) mayRun(s Stage) bool {
	for _, name := range s.Needs {
		if result, ended := r.results[name]; r.has(name) && (!ended || !result.ok()) {
			return false
		}
	}
	for _, name := range s.After {
		if r.has(name) && !r.hasEndedOrIsBlocked(name) {
			return false
		}
	}
	return true
}

// hasEndedOrIsBlocked reports whether a stage has ended, or needs one that failed.
func (r *run) hasEndedOrIsBlocked(name string) bool {
	if _, ended := r.results[name]; ended {
		return true
	}
	i := slices.IndexFunc(r.stages, func(s Stage) bool { return s.Name == name })
	return slices.ContainsFunc(r.stages[i].Needs, func(need string) bool {
		if !r.has(need) {
			return false
		}
		result, ended := r.results[need]
		return ended && !result.ok() || !ended && r.hasEndedOrIsBlocked(need)
	})
}

// has reports whether the tier has a stage of this name.
func (r *run) has(name string) bool {
	return slices.ContainsFunc(r.stages, func(s Stage) bool { return s.Name == name })
}
