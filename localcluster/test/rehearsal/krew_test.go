package rehearsal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testKrew: Krew accepts the manifest, and installs the plugin with the licenses from the archive of each platform. It
// rejects another archive.
func (r *rehearsed) testKrew(t *testing.T) {
	krew, manifest := setting(t, "KREW_BIN"), r.asset("http-canary.yaml")
	run(t, r.clone, filepath.Join(krew, "validate-krew-manifest"), "-manifest", manifest, "-skip-install")
	install := func(platform, archive string) (root string, err error) {
		root = t.TempDir()
		system, architecture, _ := strings.Cut(platform, "-")
		env := []string{
			"KREW_ROOT=" + root, "KREW_OS=" + system, "KREW_ARCH=" + architecture, "KREW_NO_UPGRADE_CHECK=1",
		}
		_, err = try(t, r.clone, env, filepath.Join(krew, "krew"), "install", "--manifest", manifest, "--archive", archive)
		return root, err
	}
	for _, platform := range platforms(kubectlPlugin) {
		root, err := install(platform, r.asset(archive(platform)))
		if err != nil {
			t.Errorf("%s: %v", platform, err)
			continue
		}
		folder := filepath.Join(root, "store", "http-canary", "v"+r.version)
		for _, name := range []string{"LICENSE", "NOTICE", thirdParty, executable(kubectlPlugin + "-" + platform)} {
			if status, err := os.Stat(filepath.Join(folder, name)); err != nil || status.Size() == 0 {
				t.Errorf("%s: the installed plugin lacks %s: %v", platform, name, err)
			}
		}
		if platform != "linux-amd64" {
			continue
		}
		// kubectl finds the plugin by this name.
		printed := run(t, root, filepath.Join(root, "bin", kubectlPlugin), "--version")
		if !strings.Contains(printed, " "+r.version+"\n") {
			t.Errorf("the installed plugin prints version %q, want %s", printed, r.version)
		}
	}
	_, err := install("linux-amd64", r.asset(archive("linux-arm64")))
	if err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("Krew installs an archive with another checksum: %v", err)
	}
}
