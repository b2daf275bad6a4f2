package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// endGrace is how long an interrupted stage may take to end after SIGTERM, before it is killed.
const endGrace = 20 * time.Second

// endPause is the time between two checks whether an interrupted stage has ended.
const endPause = 100 * time.Millisecond

// shell runs stages by make.
type shell struct {
	// root is the root of the repository, logs the folder of this run's logs.
	root, logs string
	cache      cache
	out        *lockedWriter
	// begun is when the run began.
	begun time.Time
	// hasFreshCluster is true once the shared cluster was replaced for second attempts.
	hasFreshCluster bool
}

// First implements Executor.
func (sh *shell) First(ctx context.Context, s Stage) Result {
	result := Result{Stage: s, Log: filepath.Join(sh.logs, s.Name+".log")}
	record, err := sh.cache.record(ctx, s)
	if err != nil {
		sh.out.printf("=== %s: inputs: %v\n", s.Name, err)
		result.Status = Failed
		return result
	}
	result.record = record
	if passed, found := record.passed(); found {
		sh.out.printf("=== %s is cached: it passed with the same inputs %s (--fresh runs it)\n", s.Name, passed)
		result.Status = Cached
		return result
	}
	sh.out.printf("=== %s begins %s after the start\n", s.Name, round(time.Since(sh.begun)))
	began := time.Now()
	err = errors.Join(sh.make(ctx, s, result.Log, s.Make), sh.endCluster(ctx, s, result.Log))
	result.Duration = time.Since(began)
	result.Invariants = sh.invariants(s, result.Log)
	if err == nil {
		result.Status = Passed
		sh.out.printf("=== %s passed in %s\n", s.Name, round(result.Duration))
		sh.remember(record, s)
		return result
	}
	if ctx.Err() != nil {
		result.Status = Skipped
		sh.out.printf("=== %s was interrupted after %s\n", s.Name, round(result.Duration))
		return result
	}
	result.Status = Failed
	sh.out.printf("=== %s FAILED after %s: %v; log: %s\n", s.Name, round(result.Duration), err, result.Log)
	return result
}

// Again implements Executor.
func (sh *shell) Again(ctx context.Context, failed Result) Result {
	s, result := failed.Stage, failed
	sh.out.printf("=== %s runs again, alone\n", s.Name)
	began := time.Now()
	attempts, tests, err := sh.secondAttempt(ctx, failed)
	result.Tests = tests
	for i, attempt := range attempts {
		log := filepath.Join(sh.logs, fmt.Sprintf("%s.again-%d.log", s.Name, i+1))
		err = errors.Join(err, sh.make(ctx, s, log, attempt), sh.endCluster(ctx, s, log))
		result.Invariants = append(result.Invariants, sh.invariants(s, log)...)
	}
	result.Duration += time.Since(began)
	if err != nil {
		sh.out.printf("=== %s FAILED twice: %v\n", s.Name, err)
		return result
	}
	result.Status = Flaky
	sh.out.printf("=== %s passed at the second attempt; the first one's log: %s\n", s.Name, failed.Log)
	sh.remember(result.record, s)
	return result
}

// endCluster ends the cluster of a stage that has one of its own: an interrupted test leaves it running.
func (sh *shell) endCluster(ctx context.Context, s Stage, log string) error {
	if !s.OwnCluster {
		return nil
	}
	return sh.make(context.WithoutCancel(ctx), s, log, []string{"cluster-down"})
}

// secondAttempt returns the calls of make that repeat what failed in a stage, and the names of the failed tests. A
// stage on the shared cluster gets a new cluster, because the first attempt may have left it in any state.
func (sh *shell) secondAttempt(ctx context.Context, failed Result) (attempts [][]string, tests []string, err error) {
	s := failed.Stage
	if s.Cluster && !sh.hasFreshCluster {
		sh.hasFreshCluster = true
		log := filepath.Join(sh.logs, "cluster.again.log")
		err = errors.Join(sh.make(ctx, s, log, []string{"cluster-down"}), sh.make(ctx, s, log, []string{"cluster-up-shared"}))
	}
	if !s.GoTests {
		return [][]string{s.Make}, nil, err
	}
	output, openErr := os.Open(failed.Log)
	if openErr != nil {
		return nil, nil, errors.Join(err, openErr)
	}
	defer output.Close()
	failures, readErr := failedTests(output)
	if len(failures) == 0 {
		attempts = [][]string{s.Make}
	}
	for _, f := range failures {
		attempt := []string{"test-one", "PKG=" + packageFolder(f.Package)}
		if len(f.Tests) > 0 {
			attempt = append(attempt, "RUN=^("+strings.Join(f.Tests, "|")+")$$") // make reads $$ as $
		}
		attempts = append(attempts, attempt)
		tests = append(tests, f.names()...)
	}
	return attempts, tests, errors.Join(err, readErr)
}

// module is the path of the repository's main module.
const module = "github.com/kedify/argo-rollouts-plugin"

// packageFolder is the folder of a package, from the root of the repository.
func packageFolder(path string) string { return "." + strings.TrimPrefix(path, module) }

// remember notes that a stage has passed.
func (sh *shell) remember(r record, s Stage) {
	text := fmt.Sprintf("on %s, log: %s", time.Now().UTC().Format("2006-01-02 15:04 MST"), sh.logs)
	if err := r.write(text); err != nil {
		sh.out.printf("=== %s: the pass is not recorded: %v\n", s.Name, err)
	}
}

// invariants returns the broken invariants that a log names.
func (sh *shell) invariants(s Stage, log string) []string {
	if s.BreaksInvariants {
		return nil
	}
	output, err := os.Open(log)
	if err != nil {
		return []string{fmt.Sprintf("unknown: the log cannot be read: %v", err)}
	}
	defer output.Close()
	broken, err := brokenInvariants(output)
	if err != nil {
		broken = append(broken, fmt.Sprintf("unknown: the log cannot be read: %v", err))
	}
	return broken
}

// make calls make, in a session of its own. Its output goes to the end of a log and, line by line under the stage's
// name, to the output of the run. When ctx ends, the whole session is ended.
func (sh *shell) make(ctx context.Context, s Stage, logFile string, args []string) error {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "make", append([]string{"--no-print-directory"}, args...)...)
	command.Dir, command.Stdout, command.Stderr = sh.root, writer, writer
	// This program may have been started by make, whose flags are not those of the stages.
	command.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "MAKEFLAGS=") || strings.HasPrefix(variable, "MAKELEVEL=")
	})
	if s.OwnCluster {
		command.Env = append(command.Env, "LOCALCLUSTER_NAME="+s.Name)
	}
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	command.Cancel = func() error { return endSession(command.Process.Pid) }
	if err := errors.Join(command.Start(), writer.Close()); err != nil {
		return errors.Join(err, reader.Close())
	}
	copied := make(chan error, 1)
	go func() { copied <- sh.out.prefixed(s.Name, io.TeeReader(reader, log)) }()
	err = command.Wait()
	// A process that outlives make may keep the pipe open.
	_ = reader.SetReadDeadline(time.Now().Add(endGrace))
	if copyErr := <-copied; copyErr != nil && !errors.Is(copyErr, os.ErrDeadlineExceeded) {
		err = errors.Join(err, copyErr)
	}
	return errors.Join(err, reader.Close())
}

// endSession ends all processes of a session: by SIGTERM, and what is left after endGrace by SIGKILL.
func endSession(session int) error {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		deadline := time.Now().Add(endGrace)
		for {
			members, err := sessionMembers(session)
			if err != nil || len(members) == 0 {
				return err
			}
			for _, pid := range members {
				_ = syscall.Kill(pid, signal) // it may have ended by itself
			}
			if time.Now().After(deadline) {
				break
			}
			time.Sleep(endPause)
		}
	}
	return nil
}

// sessionMembers returns the processes of a session that have not ended.
func sessionMembers(session int) ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var members []int
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		// The name, the second field, is in parentheses and may contain anything (proc_pid_stat(5)).
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) < 4 || fields[0] == "Z" || fields[3] != strconv.Itoa(session) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, err
		}
		members = append(members, pid)
	}
	return members, nil
}

// lockedWriter is an output that several stages share.
type lockedWriter struct {
	mu  sync.Mutex
	out io.Writer
}

func (w *lockedWriter) printf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fmt.Fprintf(w.out, format, args...)
}

// prefixed copies lines, each with a stage's name in front.
func (w *lockedWriter) prefixed(name string, from io.Reader) error {
	return eachLine(bufio.NewReader(from), func(line string) { w.printf("%s | %s\n", name, line) })
}

// round rounds a duration to seconds, for output.
func round(d time.Duration) time.Duration { return d.Round(time.Second) }
