package walk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrUncommitted is the error of a repository with changes that a clone would lack.
var ErrUncommitted = errors.New("a clone would lack the uncommitted changes: commit them, or add --dirty")

// branch is the branch of the clone.
const branch = "main"

// Bundle is the file that the repository is cloned from.
type Bundle struct {
	// File is its path.
	File string
	// Commit is its commit. Dirty reports whether that contains uncommitted changes.
	Commit string
	Dirty  bool
}

// MakeBundle writes a bundle of a repository's HEAD below dir. With dirty, it contains uncommitted changes except
// ignored files. The repository is only read: the commit of those changes is made in a temporary repository.
func MakeBundle(ctx context.Context, repo, dir string, dirty bool) (Bundle, error) {
	repo, err := filepath.Abs(repo)
	if err != nil {
		return Bundle{}, fmt.Errorf("find the repository: %w", err)
	}
	changes, err := git(ctx, nil, "-C", repo, "status", "--porcelain")
	if err != nil {
		return Bundle{}, err
	}
	if changes != "" && !dirty {
		return Bundle{}, ErrUncommitted
	}
	temporary, err := referenceObjects(ctx, repo, dir)
	if err != nil {
		return Bundle{}, err
	}
	defer os.RemoveAll(temporary)
	b := Bundle{File: filepath.Join(dir, "project.bundle"), Dirty: changes != ""}
	if b.Commit, err = git(ctx, nil, "-C", repo, "rev-parse", "HEAD"); err != nil {
		return Bundle{}, err
	}
	if b.Dirty {
		if b.Commit, err = commitAll(ctx, repo, temporary, b.Commit); err != nil {
			return Bundle{}, err
		}
	}
	for _, args := range [][]string{
		{"update-ref", "refs/heads/" + branch, b.Commit},
		{"symbolic-ref", "HEAD", "refs/heads/" + branch},
		{"bundle", "create", "-q", b.File, "HEAD", branch},
	} {
		if _, err := git(ctx, nil, append([]string{"--git-dir", temporary}, args...)...); err != nil {
			return Bundle{}, err
		}
	}
	return b, nil
}

// referenceObjects creates a repository that reads the objects of another one.
func referenceObjects(ctx context.Context, repo, dir string) (string, error) {
	bundleRepo := filepath.Join(dir, "bundle.git")
	if _, err := git(ctx, nil, "init", "-q", "--bare", bundleRepo); err != nil {
		return "", err
	}
	objects, err := git(ctx, nil, "-C", repo, "rev-parse", "--path-format=absolute", "--git-path", "objects")
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(bundleRepo, "objects", "info", "alternates"), []byte(objects+"\n"),
		0o644); err != nil {
		return "", fmt.Errorf("reference the repository's objects: %w", err)
	}
	return bundleRepo, nil
}

// commitAll commits a work tree as it is.
func commitAll(ctx context.Context, repo, own, parent string) (string, error) {
	in := []string{"--git-dir", own, "--work-tree", repo, "-C", repo}
	if _, err := git(ctx, nil, append(in, "add", "--all")...); err != nil {
		return "", err
	}
	tree, err := git(ctx, nil, append(in, "write-tree")...)
	if err != nil {
		return "", err
	}
	name := []string{
		"GIT_AUTHOR_NAME=cleanvm", "GIT_AUTHOR_EMAIL=cleanvm@localhost", "GIT_COMMITTER_NAME=cleanvm",
		"GIT_COMMITTER_EMAIL=cleanvm@localhost",
	}
	return git(ctx, name, "--git-dir", own, "commit-tree", "-p", parent, "-m", "Uncommitted changes", tree)
}

func git(ctx context.Context, env []string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", args...)
	command.Env = append(os.Environ(), env...)
	var problem strings.Builder
	command.Stderr = &problem
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, problem.String())
	}
	return strings.TrimSpace(string(out)), nil
}
