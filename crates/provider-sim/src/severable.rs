//! Connections that can be reset instead of answered, which HTTP servers do not offer: after [`Line::sever`] whatever is read
//! or written fails, so the server drops the connection, and the caller sees it reset.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// The handle on one connection.
#[derive(Clone, Default)]
pub(crate) struct Line(Arc<AtomicBool>);

impl Line {
    /// Nothing more goes over it.
    pub(crate) fn sever(&self) {
        // Whoever looks later sees it; nothing else is passed on with it.
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_severed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Connected<IncomingStream<'_, SeverableListener>> for Line {
    fn connect_info(stream: IncomingStream<'_, SeverableListener>) -> Self {
        stream.io().line.clone()
    }
}

/// A listener whose connections have a [`Line`].
pub(crate) struct SeverableListener(TcpListener);

impl SeverableListener {
    pub(crate) fn new(listener: TcpListener) -> Self {
        Self(listener)
    }
}

impl Listener for SeverableListener {
    type Io = Severable;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Severable, SocketAddr) {
        let (stream, address) = Listener::accept(&mut self.0).await;
        (Severable { stream, line: Line::default() }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// A connection.
pub(crate) struct Severable {
    stream: TcpStream,
    line: Line,
}

impl Severable {
    fn check(&self) -> io::Result<()> {
        if !self.line.is_severed() {
            return Ok(());
        }
        // Closed with a reset and not a polite end; where the system does not do that, an end without an answer is as telling.
        let _ = self.stream.set_zero_linger();
        Err(io::ErrorKind::ConnectionReset.into())
    }
}

impl AsyncRead for Severable {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Severable {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
