//! An authority, a server's certificate and a client's, made with openssl.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Files in a server's folder.
#[derive(Clone, Debug)]
pub struct Certificates(PathBuf);

impl Certificates {
    /// Makes them.
    pub fn make(folder: &Path) -> Self {
        let made = Self(folder.to_path_buf());
        let new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
        openssl(
            folder,
            &["req", "-x509", "-days", "2", "-subj", "/CN=test authority", "-keyout", "ca.key", "-out", "ca.pem"],
            &new,
        );
        let names = "subjectAltName=DNS:localhost,IP:127.0.0.1";
        for (name, extra) in [("server", names), ("client", "subjectAltName=DNS:client")] {
            let (key, cert) = (format!("{name}.key"), format!("{name}.pem"));
            let subject = format!("/CN={name}");
            let signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-addext", extra, "-addext", "basicConstraints=CA:FALSE"];
            let base = ["req", "-x509", "-days", "2", "-subj", &subject, "-keyout", &key, "-out", &cert];
            openssl(folder, &[&base[..], &signed[..]].concat(), &new);
        }
        made
    }

    /// Who signed.
    pub fn ca(&self) -> PathBuf {
        self.0.join("ca.pem")
    }

    /// The client's certificate.
    pub fn client_cert(&self) -> PathBuf {
        self.0.join("client.pem")
    }

    /// The client's key.
    pub fn client_key(&self) -> PathBuf {
        self.0.join("client.key")
    }

    /// The certificate of a server at localhost or 127.0.0.1.
    pub fn server_cert(&self) -> PathBuf {
        self.0.join("server.pem")
    }

    /// Its key.
    pub fn server_key(&self) -> PathBuf {
        self.0.join("server.key")
    }
}

fn openssl(folder: &Path, arguments: &[&str], more: &[&str]) {
    let made = Command::new("openssl").args(arguments).args(more).current_dir(folder).output();
    let made = made.unwrap_or_else(|error| panic!("openssl is not installed ({error}); on Debian: apt-get install openssl"));
    assert!(made.status.success(), "openssl {arguments:?} failed:\n{}", String::from_utf8_lossy(&made.stderr));
}
