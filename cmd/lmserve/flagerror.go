package main

import (
	"errors"
	"net/http"
	"strings"

	"github.com/lmserve/lmserve/api/client"
	"github.com/lmserve/lmserve/internal/arithmetic/setting"
)

// settingError names the flag of a setting that is out of its range.
func settingError(err error) error {
	var wrong *setting.Error
	if !errors.As(err, &wrong) {
		return usageError{err}
	}
	return usagef("--%s is %s, expected %s", setting.FlagName(wrong.Name), wrong.Found,
		wrong.Want)
}

// flagError names the flag of a field that a server has refused. Flags have the names of fields.
func flagError(err error) error {
	var refused *client.Error
	if !errors.As(err, &refused) || refused.Field == "" || refused.Expected == "" {
		return err
	}
	switch refused.Status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		flag := setting.FlagName(strings.TrimPrefix(refused.Field, "settings."))
		if flag == "id" || flag == "name" {
			flag = "session"
		}
		return usagef("--%s is %s, expected %s", flag, refused.Found, refused.Expected)
	}
	return err
}
