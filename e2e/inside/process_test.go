package inside

import (
	"errors"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	status := []byte("Name:\tenvoy\nUmask:\t0022\nPPid:\t4711\nNSpid:\t4712\t55\t1\nThreads:\t9\n")
	got := parseProcess(4712, status, []byte("/usr/bin/envoy\x00-c\x00/etc/envoy.yaml\x00"))
	want := Process{PID: 4712, Parent: 4711, NamespacePID: 1, Args: []string{"/usr/bin/envoy", "-c", "/etc/envoy.yaml"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("process (-want +got):\n%s", diff)
	}
	if got.Program() != "envoy" {
		t.Errorf("program %q", got.Program())
	}
	if kernel := parseProcess(2, []byte("PPid:\t0\n"), nil); kernel.Program() != "" {
		t.Errorf("a process without a command line is called %q", kernel.Program())
	}
}

// Two clusters run the same programs. Only the descendants of a cluster's first process belong to it, wherever they are
// in the list.
func TestOnlyTheClustersOwnProcesses(t *testing.T) {
	all := []Process{
		{PID: 9, Parent: 20, Args: []string{"/envoy"}},
		{PID: 10, Parent: 1, Args: []string{"localcluster", "supervise"}},
		{PID: 11, Parent: 10, NamespacePID: 1, Args: []string{"localcluster", "inside", "init"}},
		{PID: 12, Parent: 11, Args: []string{"localcluster", "inside", "run"}},
		{PID: 13, Parent: 12, Args: []string{"etcd"}},
		{PID: 20, Parent: 11, Args: []string{"shim"}},
		{PID: 30, Parent: 1, Args: []string{"localcluster", "supervise"}},
		{PID: 31, Parent: 30, NamespacePID: 1, Args: []string{"localcluster", "inside", "init"}},
		{PID: 33, Parent: 31, Args: []string{"etcd"}},
		{PID: 40, Parent: 1, Args: []string{"etcd"}},
	}
	var got []int
	for _, p := range descendants(all, 11) {
		got = append(got, p.PID)
	}
	if diff := cmp.Diff([]int{9, 12, 13, 20}, got); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}
}

func TestKillSeesTheEnd(t *testing.T) {
	command := startCat(t)
	p, lives := readProcess(command.Process.Pid)
	if !lives {
		t.Fatal("a process that was just started is not found")
	}
	stale := p
	stale.Args = []string{"another"}
	if _, _, err := stale.Kill(t.Context()); !errors.Is(err, ErrNoProcess) {
		t.Errorf("kill by an id that belongs to another process: %v", err)
	}
	asked, gone, err := p.Kill(t.Context())
	if err != nil || gone.Before(asked) {
		t.Errorf("asked %v, gone %v, %v", asked, gone, err)
	}
	if err := command.Wait(); err == nil {
		t.Error("the process ended by itself")
	}
	if _, _, err := p.Kill(t.Context()); !errors.Is(err, ErrNoProcess) {
		t.Errorf("kill of a process that has ended: %v", err)
	}
}

// startCat starts cat and returns once the program runs: Start returns when the
// kernel has closed the descriptors, which is before it has set the command line.
func startCat(t *testing.T) *exec.Cmd {
	t.Helper()
	command := exec.CommandContext(t.Context(), "cat")
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte{'\n'}); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return command
}
