//! A bounded queue.

use std::collections::VecDeque;
use std::fmt;

pub const CAPACITY: usize = 64;
static NAME: &str = "queue";

/// Holds items in order.
#[derive(Debug, Clone)]
pub struct Queue<T> {
    items: VecDeque<T>,
}

pub struct Id(pub u64);

#[derive(Debug)]
pub enum QueueError {
    Full,
    Closed { reason: String },
}

pub trait Push<T> {
    type Output;

    /// Adds an item.
    fn push(&mut self, item: T) -> Result<(), QueueError>;

    fn push_all(&mut self, items: Vec<T>) -> usize {
        items.into_iter().filter_map(|item| self.push(item).ok()).count()
    }
}

impl<T: Clone> Queue<T> {
    pub fn new() -> Self {
        Self { items: VecDeque::new() }
    }

    #[inline]
    pub async fn pop(&mut self) -> Option<T> {
        self.items.pop_front()
    }
}

impl<T> Push<T> for Queue<T> {
    type Output = ();

    fn push(&mut self, item: T) -> Result<(), QueueError> {
        if self.items.len() >= CAPACITY {
            return Err(QueueError::Full);
        }
        self.items.push_back(item);
        Ok(())
    }
}

impl fmt::Display for QueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

mod inner {
    pub(crate) fn helper() {}

    pub mod deep {
        pub unsafe fn poke(at: *mut u8) {
            *at = 1;
        }
    }
}

macro_rules! queue {
    ($($item:expr),*) => { Queue::from(vec![$($item),*]) };
}

pub type Names = Queue<String>;

#[cfg(test)]
mod tests {
    #[test]
    fn empty() {
        assert!(true);
    }
}
