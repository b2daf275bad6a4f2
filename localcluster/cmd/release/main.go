// Command release makes the documents of a release. GoReleaser runs it for the bills
// of materials (.goreleaser.yaml), `make release-notes` for the notes.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kedify/argo-rollouts-plugin/localcluster/release"
)

// version is set by the linker.
var version = "dev"

func main() {
	root := &cobra.Command{
		Use: "release", Short: "Documents of a release", Version: version, SilenceUsage: true, SilenceErrors: true,
	}
	root.AddCommand(sbomCommand(), notesCommand())
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "release: "+err.Error())
		os.Exit(1)
	}
}

func sbomCommand() *cobra.Command {
	var of string
	command := &cobra.Command{
		Use:   "sbom BINARY FILE",
		Short: "Write the software bill of materials of a binary",
		Args:  cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			out, err := os.Create(args[1])
			if err != nil {
				return fmt.Errorf("make the bill of materials: %w", err)
			}
			if err := release.WriteBill(args[0], of, out); err != nil {
				_ = out.Close() // that error is the one to tell
				return err
			}
			return out.Close()
		},
	}
	command.Flags().StringVar(&of, "of", "", "`VERSION` of the binary, without a v")
	return command
}

func notesCommand() *cobra.Command {
	var of, base, changelog string
	command := &cobra.Command{
		Use:   "notes FOLDER",
		Short: "Write release-notes.md beside the checksums.txt in a folder",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			changes, err := os.ReadFile(changelog)
			if err != nil {
				return fmt.Errorf("read the changelog: %w", err)
			}
			sums, err := os.ReadFile(filepath.Join(args[0], "checksums.txt"))
			if err != nil {
				return fmt.Errorf("read the checksums: %w", err)
			}
			if base == "" {
				base = "https://github.com/kedify/argo-rollouts-plugin/releases/download/v" + of
			}
			notes, err := release.Notes(of, base, string(changes), string(sums))
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(args[0], "release-notes.md"), []byte(notes), 0o644); err != nil {
				return fmt.Errorf("write the release notes: %w", err)
			}
			return nil
		},
	}
	command.Flags().StringVar(&of, "of", "", "`VERSION` of the release, without a v")
	command.Flags().StringVar(&base, "base", "", "`URL` that the binaries lie below (default: the project's releases)")
	command.Flags().StringVar(&changelog, "changelog", "CHANGELOG.md", "the changelog")
	return command
}
