//! The built-in files: every file of `crates/signals/catalogue`, which a test compares with this list.

/// Names and texts of files.
macro_rules! files {
    ($($name:literal)*) => { &[$(($name, include_str!(concat!("../../catalogue/", $name, ".yaml")))),*] };
}

/// By name, bases before those that extend them.
pub(super) const FILES: &[(&str, &str)] = files!(
    "generic"
    "openai"
    "cloudflare"
    "discord"
    "envoy"
    "github"
    "gitlab"
    "gravitee"
    "grpc"
    "google-grpc"
    "hubspot"
    "jira"
    "kong"
    "lemlist"
    "linear"
    "mailerlite"
    "notion"
    "okta"
    "prisjakt"
    "pubg"
    "rapidapi"
    "reddit"
    "resend"
    "salesforce"
    "sharepoint"
    "shopify"
    "slack"
    "spotify"
    "stripe"
    "telegram"
    "twilio"
    "whoop"
    "x-twitter"
    "zendesk"
);
