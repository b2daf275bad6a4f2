package rehearsal

import (
	"debug/buildinfo"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"

	"github.com/kedify/argo-rollouts-plugin/localcluster/product"
)

// thirdParty is the file with the licenses of other projects.
const thirdParty = "third-party-licenses.txt"

// kubectlPlugin is the program of the kubectl plugin.
const kubectlPlugin = "kubectl-http_canary"

// platforms are the platforms of a program, as in the names of its files.
func platforms(program string) []string {
	all := []string{"linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64"}
	if program == kubectlPlugin {
		all = append(all, "windows-amd64", "windows-arm64")
	}
	return all
}

// binaries are the names of the binaries of a release, without the suffix of Windows.
func binaries() (names []string) {
	for _, program := range []string{"rollouts-plugin-kedify", "gatewayapi-plugin", kubectlPlugin} {
		for _, platform := range platforms(program) {
			names = append(names, program+"-"+platform)
		}
	}
	return names
}

// executable returns the file name of a binary.
func executable(binary string) string {
	if strings.Contains(binary, "-windows-") {
		return binary + ".exe"
	}
	return binary
}

// archive returns the file name of Krew's archive for a platform.
func archive(platform string) string {
	if strings.HasPrefix(platform, "windows") {
		return kubectlPlugin + "-" + platform + ".zip"
	}
	return kubectlPlugin + "-" + platform + ".tar.gz"
}

// testFiles: the release consists of exactly these files, and the checksums, which `make release` has verified, are
// those of all others. The notes contain the section of the changelog, and the manifests name the images.
func (r *rehearsed) testFiles(t *testing.T) {
	want := []string{
		"LICENSE", "NOTICE", thirdParty, "checksums.txt", "config.tar.gz", "http-canary.yaml", "install.yaml",
		"kedify-http-" + r.version + ".tgz",
	}
	for _, binary := range binaries() {
		want = append(want, executable(binary), executable(binary)+".cdx.json")
	}
	for _, platform := range platforms(kubectlPlugin) {
		want = append(want, archive(platform))
	}
	entries, err := os.ReadDir(r.asset(""))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if sums := strings.Count(string(content(t, r.asset("checksums.txt"))), "\n"); sums != len(want)-1 {
		t.Errorf("%d checksums of %d files", sums, len(want)-1)
	}
	notes := string(content(t, filepath.Join(r.clone, "dist", "release-notes.md")))
	plugin := "/download/v" + r.version + "/gatewayapi-plugin-linux-amd64"
	if !strings.Contains(notes, "### Added") || !strings.Contains(notes, plugin) {
		t.Errorf("the notes lack the changes or the plugins:\n%.2000s", notes)
	}
	manifests := string(content(t, r.asset("install.yaml")))
	if image := r.published(product.AgentImage); !strings.Contains(manifests, image) {
		t.Errorf("install.yaml lacks image %s", image)
	}
}

// testBinaries: each binary is one for the platform in its name, and that of this machine prints the version.
func (r *rehearsed) testBinaries(t *testing.T) {
	for _, binary := range binaries() {
		info, err := buildinfo.ReadFile(r.asset(executable(binary)))
		if err != nil {
			t.Errorf("%s: %v", binary, err)
			continue
		}
		if platform := value(info, "GOOS") + "-" + value(info, "GOARCH"); !strings.HasSuffix(binary, "-"+platform) {
			t.Errorf("%s is a program for %s", binary, platform)
		}
		if strings.HasSuffix(binary, "-linux-amd64") {
			if printed := run(t, r.clone, r.asset(binary), "--version"); !strings.Contains(printed, " "+r.version+"\n") {
				t.Errorf("%s --version prints %q, want %s", binary, printed, r.version)
			}
		}
	}
}

// value returns a build setting.
func value(info *debug.BuildInfo, key string) string {
	for _, setting := range info.Settings {
		if setting.Key == key {
			return setting.Value
		}
	}
	return ""
}

// testBills: each module in a binary has a license in its bill of materials, and is in the file with the licenses.
func (r *rehearsed) testBills(t *testing.T) {
	licenses := string(content(t, r.asset(thirdParty)))
	for _, binary := range binaries() {
		checkBill(t, r.asset(executable(binary)+".cdx.json"), licenses)
	}
}

// checkBill checks the licenses of the modules in a bill of materials, and that a text lists each module.
func checkBill(t *testing.T, file, licenses string) {
	t.Helper()
	var bill cdx.BOM
	if err := json.Unmarshal(content(t, file), &bill); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if bill.Components == nil || len(*bill.Components) < 2 {
		t.Fatalf("%s lists no modules", file)
	}
	for _, component := range *bill.Components {
		if component.Licenses == nil || len(*component.Licenses) == 0 || (*component.Licenses)[0].License.ID == "" {
			t.Errorf("%s: %s has no license", file, component.BOMRef)
		}
		isModule := component.Type == cdx.ComponentTypeLibrary
		if isModule && !strings.Contains(licenses, "\n"+component.Name+" "+component.Version+": ") {
			t.Errorf("%s: %s %s is not in %s", file, component.Name, component.Version, thirdParty)
		}
	}
}
