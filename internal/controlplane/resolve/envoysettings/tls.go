package envoysettings

import (
	"crypto/x509"
	"encoding/pem"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// Paths of the verification of certificates of applications.
const (
	pathValidation = "cluster.transport_socket.typed_config.common_tls_context.validation_context."
	pathCA         = pathValidation + "trusted_ca.inline_string"
	pathNames      = pathValidation + "match_typed_subject_alt_names[0].matcher."
	pathExactName  = pathNames + "exact"
	pathNameSuffix = pathNames + "suffix"
)

// tlsSettings returns the settings for connections to applications with TLS.
func tlsSettings() []setting {
	return []setting{
		{
			Setting{pathCA, "one or more certificates in PEM"},
			func(t *model.EnvoySettings, text string) bool {
				certificates, isValid := parseCA(text)
				t.Cluster.TLS.CA = certificates
				return isValid
			},
		},
		{
			Setting{pathExactName, "a DNS name, such as shop.apps.svc"},
			func(t *model.EnvoySettings, text string) bool {
				t.Cluster.TLS.Name = text
				return isDNSName(text)
			},
		},
		{
			Setting{pathNameSuffix, "a dot and a DNS name, such as .apps.svc"},
			func(t *model.EnvoySettings, text string) bool {
				t.Cluster.TLS.NameSuffix = text
				name, hasDot := strings.CutPrefix(text, ".")
				return hasDot && isDNSName(name)
			},
		},
	}
}

// isDNSName reports whether the text is a DNS name.
func isDNSName(text string) bool { return len(validation.IsDNS1123Subdomain(text)) == 0 }

// parseCA returns the certificates of a PEM text, without any text between them. The result is false if there is none,
// or anything else.
func parseCA(text string) (certificates string, isValid bool) {
	var all strings.Builder
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return all.String(), all.Len() > 0 && !strings.Contains(string(rest), "-----BEGIN")
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil || block.Type != "CERTIFICATE" {
			return "", false
		}
		all.Write(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes}))
	}
}

// tlsConflict is conflict for the settings of TLS.
func tlsConflict(settings model.UpstreamTLS) (problem string, dependent []string) {
	switch {
	case settings.Name != "" && settings.NameSuffix != "":
		return pathNameSuffix + ": Envoy matches one of exact and suffix: remove one of them", []string{pathNameSuffix}
	case settings.CA == "" && settings != (model.UpstreamTLS{}):
		return pathCA + ": missing: set the CA of the certificates whose names are matched", []string{pathExactName, pathNameSuffix}
	}
	return "", nil
}
