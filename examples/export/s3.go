package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Bucket writes objects to a store with the API of S3 (AWS, MinIO, R2, Ceph).
type Bucket struct {
	URL         string // of the bucket, such as https://s3.eu-central-1.amazonaws.com/archive
	Region      string // such as eu-central-1; MinIO takes us-east-1
	Key, Secret string
	Client      *http.Client // nil means http.DefaultClient
}

// Put stores a whole object, or fails.
func (b *Bucket) Put(ctx context.Context, name string, data []byte) error {
	name = strings.ReplaceAll(url.QueryEscape(name), "+", "%20")
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, b.URL+"/"+name, bytes.NewReader(data))
	if err != nil {
		return err
	}
	b.sign(r, data, time.Now().UTC())
	client := b.Client
	if client == nil {
		client = http.DefaultClient
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
		return fmt.Errorf("the object store answers %s: %s", answer.Status, text)
	}
	return nil
}

// sign signs a request with version 4 of Amazon's signatures.
func (b *Bucket) sign(r *http.Request, body []byte, now time.Time) {
	sum := sha256.Sum256(body)
	digest, at, day := hex.EncodeToString(sum[:]), now.Format("20060102T150405Z"), now.Format("20060102")
	r.Header.Set("X-Amz-Content-Sha256", digest)
	r.Header.Set("X-Amz-Date", at)
	const signed = "host;x-amz-content-sha256;x-amz-date"
	request := strings.Join([]string{r.Method, r.URL.EscapedPath(), r.URL.Query().Encode(),
		"host:" + r.URL.Host, "x-amz-content-sha256:" + digest, "x-amz-date:" + at, "", signed, digest}, "\n")
	hashed := sha256.Sum256([]byte(request))
	scope := day + "/" + b.Region + "/s3/aws4_request"
	key := []byte("AWS4" + b.Secret)
	for _, part := range []string{day, b.Region, "s3", "aws4_request"} {
		key = mac(key, part)
	}
	signature := mac(key, "AWS4-HMAC-SHA256\n"+at+"\n"+scope+"\n"+hex.EncodeToString(hashed[:]))
	r.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s",
		b.Key, scope, signed, hex.EncodeToString(signature)))
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}
