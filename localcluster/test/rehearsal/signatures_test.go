package rehearsal

import (
	"encoding/base64"
	"encoding/json"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/kedify/argo-rollouts-plugin/localcluster/product"
)

// cosign runs cosign in a folder with keys, whose password is empty.
func cosign(t *testing.T, keys string, args ...string) (string, error) {
	t.Helper()
	return try(t, keys, []string{"HOME=" + keys, "COSIGN_PASSWORD="}, setting(t, "COSIGN_BIN"), args...)
}

// mustCosign is cosign, and fails the test if it fails.
func mustCosign(t *testing.T, keys string, args ...string) string {
	t.Helper()
	out, err := cosign(t, keys, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// verify verifies the signature of an image with the key in a folder. Nothing is in a transparency log.
func verify(t *testing.T, keys, image string) error {
	t.Helper()
	_, err := cosign(t, keys, "verify", "--key", "cosign.pub", "--insecure-ignore-tlog", image)
	return err
}

// testSignatures: cosign signs each image and the chart, attests the bill of materials of each image, and verifies
// them. The verification of another image fails, even if it has the tag or the signature of the signed one, and so does
// that with another key.
func (r *rehearsed) testSignatures(t *testing.T) {
	keys, others := t.TempDir(), t.TempDir()
	for _, folder := range []string{keys, others} {
		mustCosign(t, folder, "generate-key-pair")
	}
	for _, image := range append(product.Published(), product.Charts+"/kedify-http") {
		signed := r.byDigest(t, image)
		mustCosign(t, keys, "sign", "--key", "cosign.key", "--tlog-upload=false", "--yes", signed.Name())
		if err := verify(t, keys, signed.Name()); err != nil {
			t.Errorf("%s: %v", image, err)
		}
		if err := verify(t, others, signed.Name()); err == nil {
			t.Errorf("%s is verified with another key", image)
		}
	}
	for _, image := range product.Published() {
		r.attest(t, keys, image)
	}
	r.tamper(t, keys, product.AgentImage)
}

// byDigest returns the reference of an image by its digest.
func (r *rehearsed) byDigest(t *testing.T, image string) name.Digest {
	t.Helper()
	reference := r.reference(t, image)
	described, err := remote.Head(reference, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return reference.Context().Digest(described.Digest.String())
}

// attest attests the bill of materials of an image, and verifies that the attestation contains it.
func (r *rehearsed) attest(t *testing.T, keys, image string) {
	t.Helper()
	bill, signed := filepath.Join(r.images, "sbom", path.Base(image)+".cdx.json"), r.byDigest(t, image).Name()
	mustCosign(t, keys, "attest", "--key", "cosign.key", "--tlog-upload=false", "--yes", "--type", "cyclonedx",
		"--predicate", bill, signed)
	printed := mustCosign(t, keys, "verify-attestation", "--key", "cosign.pub", "--insecure-ignore-tlog",
		"--type", "cyclonedx", signed)
	var envelope struct {
		Payload string `json:"payload"`
	}
	if err := json.Unmarshal([]byte(printed), &envelope); err != nil {
		t.Fatalf("attestation of %s: %v\n%s", image, err, printed)
	}
	statement, err := base64.StdEncoding.DecodeString(envelope.Payload)
	if err != nil {
		t.Fatalf("attestation of %s: %v", image, err)
	}
	program := product.Packages()[product.Programs(image)[0]]
	if !strings.Contains(string(statement), strings.TrimPrefix(program, ".")+"@v"+r.version) {
		t.Errorf("the attestation of %s lacks %s:\n%.2000s", image, program, statement)
	}
}

// tamper replaces a signed image by another one.
func (r *rehearsed) tamper(t *testing.T, keys, image string) {
	t.Helper()
	reference, signed := r.reference(t, image), r.byDigest(t, image)
	index, err := remote.Index(reference, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	other, ok := mutate.Annotations(index, map[string]string{"changed": "yes"}).(v1.ImageIndex)
	if !ok {
		t.Fatal("the changed image is not an index")
	}
	if err := remote.WriteIndex(reference, other, remote.WithContext(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := verify(t, keys, reference.Name()); err == nil || !strings.Contains(err.Error(), "no signatures found") {
		t.Errorf("another image with the tag of the signed one: %v", err)
	}
	// cosign finds the signature of an image by this tag.
	signature := func(digest string) name.Tag {
		return reference.Context().Tag(strings.Replace(digest, ":", "-", 1) + ".sig")
	}
	moved, err := remote.Image(signature(signed.DigestStr()), remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	changed := r.byDigest(t, image)
	if err := remote.Write(signature(changed.DigestStr()), moved, remote.WithContext(t.Context())); err != nil {
		t.Fatal(err)
	}
	err = verify(t, keys, changed.Name())
	if err == nil || !strings.Contains(err.Error(), "invalid or missing digest in claim") {
		t.Errorf("another image with the signature of the signed one: %v", err)
	}
	if err := verify(t, keys, signed.Name()); err != nil {
		t.Errorf("the signed image, by its digest: %v", err)
	}
}
