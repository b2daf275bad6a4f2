package model_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/kedify/argo-rollouts-plugin/internal/model"
)

// TestPrivateKeyIsNeverFormatted formats a Certificate, and values that contain one, in all ways that can happen by
// accident.
func TestPrivateKeyIsNeverFormatted(t *testing.T) {
	t.Parallel()
	const secret = "hidden"
	certificate := model.NewCertificate(model.Key{Namespace: "apps", Name: "shop-tls"}, []byte("chain"), []byte(secret),
		time.Time{})
	config := model.Config{Certificates: map[model.Host]*model.Certificate{"shop.example.com": certificate}}
	texts := map[string]string{}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		for _, value := range []any{
			certificate, *certificate, config, &config,
			[]*model.Certificate{certificate},
			[]model.Certificate{*certificate},
		} {
			texts[fmt.Sprintf("%s of %T", verb, value)] = fmt.Sprintf(verb, value)
		}
	}
	for _, value := range []any{certificate, *certificate, config} {
		asJSON, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		texts[fmt.Sprintf("JSON of %T", value)] = string(asJSON)
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("written", "value", value)
		slog.New(slog.NewTextHandler(&log, nil)).Info("written", "value", value)
		texts[fmt.Sprintf("log of %T", value)] = log.String()
	}
	for what, text := range texts {
		for _, form := range []string{
			secret, fmt.Sprintf("%x", secret), "aGlkZGVu", "104 105 100 100 101 110",
			"0x68, 0x69",
		} {
			if strings.Contains(text, form) {
				t.Errorf("%s has the private key: %s", what, text)
			}
		}
	}
	if !strings.Contains(texts["%v of *model.Certificate"], "apps/shop-tls") ||
		string(certificate.PrivateKey()) != secret {
		t.Errorf("the text is %q, the key %q", texts["%v of *model.Certificate"], certificate.PrivateKey())
	}
}
