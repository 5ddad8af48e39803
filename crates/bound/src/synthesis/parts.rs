//! Parts that become one.

/// A number of things in parts, at first each by itself.
pub struct DisjointSets {
    above: Vec<u32>,
    /// How many parts there are.
    pub count: usize,
}

impl DisjointSets {
    /// So many parts.
    pub fn new(count: usize) -> DisjointSets {
        DisjointSets { above: (0..count as u32).collect(), count }
    }

    /// What stands for a thing's part.
    pub fn of(&mut self, mut at: u32) -> u32 {
        while self.above[at as usize] != at {
            // Halves the way for the next time.
            self.above[at as usize] = self.above[self.above[at as usize] as usize];
            at = self.above[at as usize];
        }
        at
    }

    /// Makes two parts one; whether they were two.
    pub fn join(&mut self, a: u32, b: u32) -> bool {
        let [a, b] = [self.of(a), self.of(b)];
        if a != b {
            self.above[a as usize] = b;
            self.count -= 1;
        }
        a != b
    }

    /// Adds a part that holds the whole of others from now on.
    pub fn push(&mut self) -> u32 {
        self.above.push(self.above.len() as u32);
        self.count += 1;
        self.above.len() as u32 - 1
    }
}
